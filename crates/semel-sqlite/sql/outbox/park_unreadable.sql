-- Parks a row that cannot be read as an event, as it is but for its aggregate, unless it is parked
-- already.
-- ?1 type of the aggregate, ?2 its id, ?3 destination, ?4 generation, ?5 position, ?6 state,
-- ?7 attempts, ?8 why, ?9 parked at, ?10 why it cannot be read
INSERT INTO semel_parked (
    id, aggregatetype, aggregateid, type, headers, at_us, aggregate_version, trace, tenant, operation,
    key, facet, cause, payload, destination, generation, pos, state, attempts, why, parked_at_us,
    unreadable, head
)
SELECT
    id, ?1, ?2, type, headers, at_us, aggregate_version, trace, tenant, operation, key, facet, cause,
    payload, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
    NOT EXISTS (
        SELECT 1 FROM semel_parked
        WHERE destination = ?3 AND aggregatetype = ?1 AND aggregateid = ?2
    )
FROM semel_outbox
WHERE pos = ?5
ON CONFLICT (destination, generation, pos) DO NOTHING;
