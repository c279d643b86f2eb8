-- Appends events in the caller's transaction, in the order given: positions are drawn in it.
-- Arrays of one length: $1 ids as UUIDs in text, $2 types of aggregates, $3 their ids, $4 types, $5
-- payloads, $6 headers in JSON, $7 versions, $8 traces, $9 causes, and of the intents $10 tenants, $11
-- operations, $12 keys, $13 facets
INSERT INTO semel.outbox (
    id, aggregatetype, aggregateid, type, payload, headers, aggregate_version, trace, cause, tenant,
    operation, key, facet
)
SELECT
    e.id::uuid, e.aggregatetype, e.aggregateid, e.type, e.payload, e.headers::jsonb,
    e.aggregate_version, e.trace, e.cause, e.tenant, e.operation, e.key, e.facet
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::bigint[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bytea[]
) WITH ORDINALITY AS e (
    id, aggregatetype, aggregateid, type, payload, headers, aggregate_version, trace, cause, tenant,
    operation, key, facet, nr
)
ORDER BY e.nr;
