-- Lists every destination that was ever led.
-- ?1 up to how many waiting events are counted
SELECT
    destination, epoch, generation, owner, renewed_at_us, lease_us,
    (SELECT at_us FROM semel_outbox WHERE pos > settled ORDER BY pos LIMIT 1),
    (SELECT count(*) FROM (SELECT 1 FROM semel_outbox WHERE pos > settled LIMIT ?1)),
    (SELECT count(*) FROM semel_parked AS p WHERE p.destination = d.destination),
    (SELECT count(*) FROM semel_parked AS p WHERE p.destination = d.destination AND head = 1),
    (SELECT min(parked_at_us) FROM semel_parked AS p WHERE p.destination = d.destination),
    (
        SELECT min(p.at_us) FROM semel_parked AS h
        JOIN semel_parked AS p
            ON p.destination = h.destination AND p.aggregatetype = h.aggregatetype
            AND p.aggregateid = h.aggregateid
        WHERE h.destination = d.destination AND h.head = 1 AND h.state NOT IN ('drop', 'failed')
            AND p.state NOT IN ('drop', 'skip')
    ),
    (
        SELECT count(*) FROM semel_parked AS p
        WHERE p.destination = d.destination AND head = 1 AND state = 'failed'
    ),
    (
        SELECT min(at_us) FROM semel_parked AS p
        WHERE p.destination = d.destination AND head = 1 AND state = 'failed'
    )
FROM semel_destination AS d
ORDER BY destination;
