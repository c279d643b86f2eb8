-- Lists parked rows in their order.
-- $1 behind which place, $2 destination, $3 and $4 the aggregate, $5 state, $6 id as a UUID in text; each
-- NULL: any; $7 how many
SELECT
    r.pos, r.at_us, r.event_id, r.aggregatetype, r.aggregateid, r.type, r.payload, r.payload_bytes,
    r.headers, r.aggregate_version, r.trace, r.cause, r.tenant, r.operation, r.key, r.facet, r.seq,
    r.destination, r.state, r.attempts, r.why, r.parked_at_us
FROM semel.outbox_parked_read AS r
WHERE r.seq > $1
    AND ($2::text IS NULL OR r.destination = $2)
    AND ($3::text IS NULL OR r.aggregatetype = $3 AND r.aggregateid = $4)
    AND ($5::text IS NULL OR r.state = $5)
    AND ($6::text IS NULL OR r.id = $6::text::uuid)
ORDER BY r.seq
LIMIT $7;
