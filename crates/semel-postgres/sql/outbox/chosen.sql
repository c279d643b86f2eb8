-- Reads the events at given positions, in the order given.
-- $1 positions, $2 how many bytes
SELECT
    c.pos, c.at_us, c.event_id, c.aggregatetype, c.aggregateid, c.type, c.payload,
    c.payload_bytes, c.headers, c.aggregate_version, c.trace, c.cause, c.tenant, c.operation,
    c.key, c.facet
FROM (
    SELECT
        e.*, p.nr,
        sum(coalesce(e.payload_bytes, 0) + coalesce(octet_length(e.headers), 0) + 160)
            OVER (ORDER BY p.nr ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM unnest($1::bigint[]) WITH ORDINALITY AS p (pos, nr)
    JOIN semel.outbox_at($1) AS e ON e.pos = p.pos
) AS c
WHERE coalesce(c.bytes_before, 0) < $2
ORDER BY c.nr;
