-- Lists parked rows in their order.
-- ?1 behind this place, ?2 how many at most, ?3 destination or NULL, ?4 type of the aggregate or NULL,
-- ?5 its id or NULL, ?6 state or NULL, ?7 id or NULL
SELECT
    pos, at_us, id, aggregatetype, aggregateid, type, headers, aggregate_version, trace, tenant,
    operation, key, facet, cause, payload, seq, destination, state, attempts, why, unreadable,
    parked_at_us
FROM semel_parked
WHERE
    seq > ?1
    AND (?3 IS NULL OR destination = ?3)
    AND (?4 IS NULL OR aggregatetype = ?4)
    AND (?5 IS NULL OR aggregateid = ?5)
    AND (?6 IS NULL OR state = ?6)
    AND (?7 IS NULL OR id = ?7)
ORDER BY seq
LIMIT ?2;
