-- Lists the heads of parked lanes that wait for nobody, the oldest first.
-- ?1 destination, ?2 how many at most
SELECT
    pos, at_us, id, aggregatetype, aggregateid, type, headers, aggregate_version, trace, tenant,
    operation, key, facet, cause, payload, seq, destination, state, attempts, why, unreadable,
    parked_at_us
FROM semel_parked
WHERE destination = ?1 AND head = 1 AND state <> 'failed'
ORDER BY seq
LIMIT ?2;
