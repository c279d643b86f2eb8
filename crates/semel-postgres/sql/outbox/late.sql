-- Reads what transactions appended that were open when the pass before began, and have ended when this
-- one did: their positions are old.
-- $1 behind, $2 up to, $3 their ids, as an array in text, $4 how many rows, $5 how many bytes
SELECT
    c.pos, c.at_us, c.event_id, c.aggregatetype, c.aggregateid, c.type, c.payload, c.payload_bytes,
    c.headers, c.aggregate_version, c.trace, c.cause, c.tenant, c.operation, c.key, c.facet, c.found,
    (SELECT semel.now_us()) AS now_us
FROM (
    SELECT
        f.*, count(*) OVER () AS found,
        sum(coalesce(f.payload_bytes, 0) + coalesce(octet_length(f.headers), 0) + 160)
            OVER (ORDER BY f.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT l.*
        FROM semel.outbox_window_late($1, $2, $3::text::xid8[], $4) AS l
        ORDER BY l.pos
        LIMIT $4
    ) AS f
) AS c
WHERE coalesce(c.bytes_before, 0) < $5
ORDER BY c.pos;
