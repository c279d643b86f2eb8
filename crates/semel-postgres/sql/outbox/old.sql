-- Reads what came with a dump and the destination did not have in the cluster that it came from. All of
-- it is committed here; the snapshots are of there.
-- $1 behind, $2 up to, $3 what was settled there, $4 what the pass that was open there showed, $5 how
-- far that was settled, $6 behind which position nothing was shown, $7 how many rows, $8 how many bytes
SELECT
    c.pos, c.at_us, c.event_id, c.aggregatetype, c.aggregateid, c.type, c.payload, c.payload_bytes,
    c.headers, c.aggregate_version, c.trace, c.cause, c.tenant, c.operation, c.key, c.facet, c.found,
    (SELECT semel.now_us()) AS now_us
FROM (
    SELECT
        f.*, count(*) OVER () AS found,
        sum(coalesce(f.payload_bytes, 0) + coalesce(octet_length(f.headers), 0) + 160)
            OVER (ORDER BY f.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM semel.outbox_window_old(
        $1, $2, $3::text::pg_snapshot, $4::text::pg_snapshot, $5, $6, $7
    ) AS f
) AS c
WHERE coalesce(c.bytes_before, 0) < $8
ORDER BY c.pos;
