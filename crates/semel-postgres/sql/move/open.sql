-- Undoes close.sql.
DO $opening$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF NOT EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = 'semel.record'::regclass AND tgname LIKE 'closed\_%'
    ) THEN
        RETURN;
    END IF;
    DROP TRIGGER IF EXISTS closed_away ON semel.record;
    DROP TRIGGER IF EXISTS closed_away ON semel.lease;
    DROP TRIGGER IF EXISTS closed_arriving ON semel.record;
    DROP TRIGGER IF EXISTS closed_arriving ON semel.lease;
    DROP FUNCTION IF EXISTS semel.closed();
END
$opening$;
