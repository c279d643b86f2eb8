-- Refuses from now on whatever writes a record or a lease, whoever writes it, by triggers that stand there
-- only while the store is closed: an open one pays nothing. It waits for transactions that have written and
-- are still open, so that none of them commits behind it; not for long, since others wait behind it.
-- The setting semel_move.why says why: away or arriving.
DO $closing$
DECLARE
    why text := current_setting('semel_move.why');
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = 'semel.record'::regclass AND tgname = 'closed_' || why
    ) THEN
        RETURN;
    END IF;
    CREATE OR REPLACE FUNCTION semel.closed() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
    BEGIN
        -- Whoever brings records says so, in its own transaction.
        IF current_setting('semel_move.brings', true) = 'yes' THEN
            RETURN NEW;
        END IF;
        IF TG_NAME LIKE '%arriving' THEN
            RAISE EXCEPTION 'semel: the store is closed until all records of another one are in it'
                USING ERRCODE = 'SM013', HINT = 'end their import by asking for it again';
        END IF;
        RAISE EXCEPTION 'semel: the store is closed, since its records were taken away'
            USING ERRCODE = 'SM012', HINT = 'use the store they are in now';
    END
    $$;
    -- Dropping waits for readers too, so it is not tried where there is nothing to drop.
    IF EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = 'semel.record'::regclass AND tgname LIKE 'closed\_%'
    ) THEN
        DROP TRIGGER IF EXISTS closed_away ON semel.record;
        DROP TRIGGER IF EXISTS closed_away ON semel.lease;
        DROP TRIGGER IF EXISTS closed_arriving ON semel.record;
        DROP TRIGGER IF EXISTS closed_arriving ON semel.lease;
    END IF;
    EXECUTE format(
        'CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON semel.record '
        'FOR EACH ROW EXECUTE FUNCTION semel.closed()', 'closed_' || why
    );
    EXECUTE format(
        'CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON semel.lease '
        'FOR EACH ROW EXECUTE FUNCTION semel.closed()', 'closed_' || why
    );
END
$closing$;
