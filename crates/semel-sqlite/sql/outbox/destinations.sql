-- Lists every destination that was ever led.
-- ?1 up to how many waiting events are counted
SELECT
    destination, epoch, generation, owner, renewed_at_us, lease_us,
    (SELECT at_us FROM semel_outbox WHERE pos > settled ORDER BY pos LIMIT 1),
    (SELECT count(*) FROM (SELECT 1 FROM semel_outbox WHERE pos > settled LIMIT ?1)),
    (SELECT count(*) FROM semel_parked AS p WHERE p.destination = d.destination),
    (SELECT count(*) FROM semel_parked AS p WHERE p.destination = d.destination AND head = 1),
    (SELECT min(parked_at_us) FROM semel_parked AS p WHERE p.destination = d.destination)
FROM semel_destination AS d
ORDER BY destination;
