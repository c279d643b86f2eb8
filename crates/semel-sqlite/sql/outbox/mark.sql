-- Marks a parked row by the word of an operator.
-- ?1 destination, ?2 place, ?3 state
UPDATE semel_parked SET state = ?3
WHERE seq = ?2 AND destination = ?1 AND (state <> 'behind' OR head = 1)
RETURNING id;
