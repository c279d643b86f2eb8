-- Lists what parked lanes send next, the lane with the oldest head first: from lane to lane by the
-- index, past what waits in each; then of each lane, row by row, what may leave right behind its head.
-- The last two columns are the place of the head, and how many rows of the lane were looked at: one more
-- than its share if there are more.
-- $1 destination, $2 how many rows, $3 how many of one lane, $4 how many bytes
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
), due AS (
    SELECT h.*, h.state IN ('behind', 'retry') AS goes
    FROM head AS h
    WHERE h.state <> 'failed'
    ORDER BY h.seq
    LIMIT $2
), share AS (
    SELECT greatest(1, least($3, $2 / greatest(1, count(*)))) AS of_lane FROM due
), run AS (
    SELECT d.seq AS head, s.seq, s.looked
    FROM due AS d
    CROSS JOIN share
    CROSS JOIN LATERAL (
        SELECT
            l.seq, count(*) OVER () AS looked, row_number() OVER by_seq AS nr,
            bool_and(l.seq = d.seq OR (d.goes AND l.state = 'behind')) OVER by_seq AS goes
        FROM (
            SELECT p.seq, p.state
            FROM semel.outbox_parked AS p
            WHERE p.destination = $1 AND p.aggregatetype = d.aggregatetype
                AND p.aggregateid = d.aggregateid AND p.seq >= d.seq
            ORDER BY p.seq
            LIMIT (SELECT share.of_lane + 1)
        ) AS l
        WINDOW by_seq AS (ORDER BY l.seq)
    ) AS s
    WHERE s.goes AND s.nr <= share.of_lane
)
SELECT
    c.pos, c.at_us, c.event_id, c.aggregatetype, c.aggregateid, c.type, c.payload,
    c.payload_bytes, c.headers, c.aggregate_version, c.trace, c.cause, c.tenant, c.operation,
    c.key, c.facet, c.seq, c.destination, c.state, c.attempts, c.why, c.parked_at_us, c.head, c.looked
FROM (
    SELECT
        r.*, n.head, n.looked,
        sum(coalesce(r.payload_bytes, 0) + coalesce(octet_length(r.headers), 0) + 160)
            OVER (ORDER BY n.head, n.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM run AS n
    -- One look by the key for each, however many rows the table has.
    CROSS JOIN LATERAL (
        SELECT q.* FROM semel.outbox_parked_read AS q WHERE q.seq = n.seq LIMIT 1
    ) AS r
) AS c
WHERE coalesce(c.bytes_before, 0) < $4
ORDER BY c.head, c.seq;
