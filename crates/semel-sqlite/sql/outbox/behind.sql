-- Lists what waits behind a row in its lane, in order.
-- ?1 destination, ?2 type of the aggregate, ?3 its id, ?4 the place of the row, ?5 how many at most
SELECT
    pos, at_us, id, aggregatetype, aggregateid, type, headers, aggregate_version, trace, tenant,
    operation, key, facet, cause, payload, seq, destination, state, attempts, why, unreadable,
    parked_at_us
FROM semel_parked
WHERE destination = ?1 AND aggregatetype = ?2 AND aggregateid = ?3 AND seq > ?4
ORDER BY seq
LIMIT ?5;
