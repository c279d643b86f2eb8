-- Lists every destination that was ever led.
-- $1 up to how many waiting events are counted
SELECT
    l.destination, l.owner, l.renewed_at_us + l.lease_us AS lease_until_us, l.epoch,
    l.generation::bigint, w.oldest_us, w.waiting, p.parked, p.lanes, p.oldest_us, n.now_us
FROM semel.outbox_lasts() AS l
CROSS JOIN LATERAL semel.outbox_waiting(l, $1) AS w
CROSS JOIN LATERAL (
    SELECT
        count(*) AS parked, count(DISTINCT (r.aggregatetype, r.aggregateid)) AS lanes,
        min(r.parked_at_us) AS oldest_us
    FROM semel.outbox_parked AS r
    WHERE r.destination = l.destination
) AS p
CROSS JOIN (SELECT semel.now_us() AS now_us) AS n
ORDER BY l.destination;
