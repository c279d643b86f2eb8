-- Appends an event. Its position comes by itself.
-- ?1 id, ?2 type of the aggregate, ?3 its id, ?4 type, ?5 headers, ?6 at, ?7 version of the aggregate,
-- ?8 trace, ?9 tenant, ?10 operation, ?11 key, ?12 facet (empty: none), ?13 cause, ?14 payload
INSERT INTO semel_outbox (
    id, aggregatetype, aggregateid, type, headers, at_us, aggregate_version, trace, tenant, operation,
    key, facet, cause, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);
