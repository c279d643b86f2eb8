-- Lists every destination that was ever led.
-- $1 up to how many waiting events are counted
SELECT
    l.destination, l.owner, l.renewed_at_us + l.lease_us AS lease_until_us, l.epoch,
    l.generation::bigint, w.oldest_us, w.waiting, p.parked, p.lanes, p.oldest_us, n.now_us,
    p.aside_us, p.failed, p.failed_us
FROM semel.outbox_lasts() AS l
CROSS JOIN LATERAL semel.outbox_waiting(l, $1) AS w
CROSS JOIN LATERAL (
    SELECT
        count(*) AS parked, count(*) FILTER (WHERE r.nth = 1) AS lanes,
        min(r.parked_at_us) AS oldest_us,
        min(r.at_us) FILTER (
            WHERE r.head NOT IN ('drop', 'failed') AND r.state NOT IN ('drop', 'skip')
        ) AS aside_us,
        count(*) FILTER (WHERE r.nth = 1 AND r.state = 'failed') AS failed,
        min(r.at_us) FILTER (WHERE r.nth = 1 AND r.state = 'failed') AS failed_us
    FROM (
        SELECT
            p.at_us, p.parked_at_us, p.state, row_number() OVER lane AS nth,
            first_value(p.state) OVER lane AS head
        FROM semel.outbox_parked AS p
        WHERE p.destination = l.destination
        WINDOW lane AS (PARTITION BY p.aggregatetype, p.aggregateid ORDER BY p.seq)
    ) AS r
) AS p
CROSS JOIN (SELECT semel.now_us() AS now_us) AS n
ORDER BY l.destination;
