-- Parks an event, unless it is parked already.
-- ?1 id, ?2 type of the aggregate, ?3 its id, ?4 type, ?5 headers, ?6 at, ?7 version of the aggregate,
-- ?8 trace, ?9 tenant, ?10 operation, ?11 key, ?12 facet (empty: none), ?13 cause, ?14 payload,
-- ?15 destination, ?16 generation, ?17 position, ?18 state, ?19 attempts, ?20 why, ?21 parked at
INSERT INTO semel_parked (
    id, aggregatetype, aggregateid, type, headers, at_us, aggregate_version, trace, tenant, operation,
    key, facet, cause, payload, destination, generation, pos, state, attempts, why, parked_at_us, head
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    NOT EXISTS (
        SELECT 1 FROM semel_parked
        WHERE destination = ?15 AND aggregatetype = ?2 AND aggregateid = ?3
    )
) ON CONFLICT (destination, generation, pos) DO NOTHING;
