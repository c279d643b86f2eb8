-- Names in the audit all that goes with a row that is to be dropped, by the word that was said of that one.
-- ?1 destination, ?2 place, ?3 at
INSERT INTO semel_outbox_audit (at_us, kind, destination, event, rows, actor, note)
SELECT
    ?3, 'drop', behind.destination, behind.id, 1, coalesce(said.actor, ''),
    'behind ' || head.id || coalesce(': ' || said.note, '')
FROM semel_parked AS head
JOIN semel_parked AS behind
    ON behind.destination = head.destination AND behind.aggregatetype = head.aggregatetype
    AND behind.aggregateid = head.aggregateid AND behind.seq > head.seq
LEFT JOIN semel_outbox_audit AS said ON said.row_id = (
    SELECT max(row_id) FROM semel_outbox_audit
    WHERE destination = ?1 AND event = head.id AND kind = 'drop'
)
WHERE head.seq = ?2 AND head.destination = ?1 AND head.state = 'drop'
ORDER BY behind.seq;
