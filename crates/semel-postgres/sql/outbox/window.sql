-- Reads what a pass shows behind a position, in order. Nothing before that position is looked at.
-- $1 behind, $2 up to, $3 what is settled, $4 what the pass shows, $5 how many rows, $6 how many bytes
SELECT
    c.pos, c.at_us, c.event_id, c.aggregatetype, c.aggregateid, c.type, c.payload, c.payload_bytes,
    c.headers, c.aggregate_version, c.trace, c.cause, c.tenant, c.operation, c.key, c.facet, c.found,
    (SELECT semel.now_us()) AS now_us
FROM (
    SELECT
        f.*, count(*) OVER () AS found,
        sum(coalesce(f.payload_bytes, 0) + coalesce(octet_length(f.headers), 0) + 160)
            OVER (ORDER BY f.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM semel.outbox_window($1, $2, $3::text::pg_snapshot, $4::text::pg_snapshot, $5) AS f
) AS c
WHERE coalesce(c.bytes_before, 0) < $6
ORDER BY c.pos;
