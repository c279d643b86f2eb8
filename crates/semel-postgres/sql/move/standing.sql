-- Says why the store is closed (NULL: it is open), and the floor of its fences.
SELECT
    (
        SELECT tgname::text FROM pg_trigger
        WHERE tgrelid = 'semel.record'::regclass AND tgname IN ('closed_away', 'closed_arriving')
    ),
    floor
FROM semel.meta;
