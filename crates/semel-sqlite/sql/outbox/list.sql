-- Lists events in the order of their positions.
-- ?1 behind this position, ?2 id or NULL, ?3 type of the aggregate or NULL, ?4 its id or NULL,
-- ?5 tenant or NULL, ?6 operation of the intent or NULL, ?7 key or NULL, ?8 facet or NULL (empty: none),
-- ?9 operation or NULL, ?10 appended from, ?11 appended before, ?12 how many at most,
-- ?13 up to this position
SELECT
    pos, at_us, id, aggregatetype, aggregateid, type, headers, aggregate_version, trace, tenant,
    operation, key, facet, cause, payload
FROM semel_outbox
WHERE
    pos > ?1
    AND (?2 IS NULL OR id = ?2)
    AND (?3 IS NULL OR aggregatetype = ?3)
    AND (?4 IS NULL OR aggregateid = ?4)
    AND (?5 IS NULL OR tenant = ?5)
    AND (?6 IS NULL OR operation = ?6)
    AND (?7 IS NULL OR key = ?7)
    AND (?8 IS NULL OR facet = ?8)
    AND (?9 IS NULL OR operation = ?9)
    AND at_us >= ?10 AND at_us < ?11
    AND pos <= ?13
ORDER BY pos
LIMIT ?12;
