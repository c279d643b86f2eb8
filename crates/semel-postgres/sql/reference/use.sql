-- Keeps what a business reference was used for, in the transaction of the effect. One whose time is over
-- may be used again; one that another transaction used since it was looked up fails.
-- $1 tenant, $2 operation, $3 reference, $4 key, $5 facet, $6 pointer kind, $7 pointer id, $8 for how
-- long it may not be used again (NULL: for ever)
WITH used AS (
    INSERT INTO semel.reference AS r (
        tenant, operation, reference, key, facet, pointer_kind, pointer_id, created_at_us, until_us
    )
    SELECT $1, $2, $3, $4, $5, $6, $7, t.now, t.now + $8
    FROM (SELECT semel.now_us() AS now) AS t
    ON CONFLICT (tenant, operation, reference) DO UPDATE
    SET
        key = excluded.key, facet = excluded.facet, pointer_kind = excluded.pointer_kind,
        pointer_id = excluded.pointer_id, created_at_us = excluded.created_at_us,
        until_us = excluded.until_us
    WHERE r.until_us <= excluded.created_at_us
    RETURNING true
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM used) THEN true
        ELSE semel.refuse(
            '40001',
            'semel: another transaction used this reference since it was claimed',
            'begin a new transaction and claim again'
        )
    END;
