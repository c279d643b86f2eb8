-- Lists parked rows that are the first of their lane and wait for nobody, the oldest first: from lane to
-- lane by the index, past what waits in each.
-- $1 destination, $2 how many
WITH RECURSIVE head AS (
    (
        SELECT p.aggregatetype, p.aggregateid, p.seq, p.state
        FROM semel.outbox_parked AS p
        WHERE p.destination = $1
        ORDER BY p.aggregatetype, p.aggregateid, p.seq
        LIMIT 1
    )
    UNION ALL
    SELECT n.aggregatetype, n.aggregateid, n.seq, n.state
    FROM head AS h
    CROSS JOIN LATERAL (
        SELECT p.aggregatetype, p.aggregateid, p.seq, p.state
        FROM semel.outbox_parked AS p
        WHERE p.destination = $1
            AND (p.aggregatetype, p.aggregateid) > (h.aggregatetype, h.aggregateid)
        ORDER BY p.aggregatetype, p.aggregateid, p.seq
        LIMIT 1
    ) AS n
)
SELECT
    r.pos, r.at_us, r.event_id, r.aggregatetype, r.aggregateid, r.type, r.payload,
    r.payload_bytes, r.headers, r.aggregate_version, r.trace, r.cause, r.tenant, r.operation,
    r.key, r.facet, r.seq, r.destination, r.state, r.attempts, r.why, r.parked_at_us
FROM (
    SELECT h.seq FROM head AS h WHERE h.state <> 'failed' ORDER BY h.seq LIMIT $2
) AS d
JOIN semel.outbox_parked_read AS r ON r.seq = d.seq
ORDER BY r.seq;
