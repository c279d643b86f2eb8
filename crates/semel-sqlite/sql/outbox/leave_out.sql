-- Notes what is left out with a parked row: all that is parked behind it too, if it is to be dropped. Once
-- an event is no longer kept, nobody can ask for it.
-- ?1 destination, ?2 place
INSERT OR IGNORE INTO semel_left_out (id, destination)
SELECT p.id, p.destination
FROM semel_parked AS head
JOIN semel_parked AS p ON
    p.destination = head.destination
    AND p.aggregatetype = head.aggregatetype
    AND p.aggregateid = head.aggregateid
    AND (p.seq = head.seq OR p.seq > head.seq AND head.state = 'drop')
WHERE
    head.seq = ?2 AND head.destination = ?1
    AND EXISTS (SELECT 1 FROM semel_outbox WHERE id = p.id);
