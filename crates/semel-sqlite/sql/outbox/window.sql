-- Reads events in the order of their positions.
-- ?1 behind this position, ?2 up to this one, ?3 how many at most
SELECT
    pos, at_us, id, aggregatetype, aggregateid, type, headers, aggregate_version, trace, tenant,
    operation, key, facet, cause, payload
FROM semel_outbox
WHERE pos > ?1 AND pos <= ?2
ORDER BY pos
LIMIT ?3;
