-- Lists events that are still kept, in the order of their positions.
-- $1 behind which position, $2 id as a UUID in text, $3 and $4 the aggregate, $5 tenant, $6 operation, $7
-- key and $8 facet (empty: none) of the intent, $9 appended from, $10 appended before; each NULL: any;
-- $11 how many
SELECT
    e.pos, e.at_us, e.event_id, e.aggregatetype, e.aggregateid, e.type, e.payload, e.payload_bytes,
    e.headers, e.aggregate_version, e.trace, e.cause, e.tenant, e.operation, e.key, e.facet
FROM semel.outbox_read AS e
WHERE e.pos > $1
    AND ($2::text IS NULL OR e.id = $2::text::uuid)
    AND ($3::text IS NULL OR e.aggregatetype = $3 AND e.aggregateid = $4)
    AND ($5::text IS NULL OR e.tenant = $5)
    AND ($6::text IS NULL OR e.operation = $6)
    AND ($7::text IS NULL OR e.key = $7 AND coalesce(e.facet, '') = $8)
    AND ($9::bigint IS NULL OR e.at_us >= $9)
    AND ($10::bigint IS NULL OR e.at_us < $10)
ORDER BY e.pos
LIMIT $11;
