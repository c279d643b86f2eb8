-- Has a parked row wait for an operator once more.
-- ?1 destination, ?2 place, ?3 attempts, ?4 why
UPDATE semel_parked SET state = 'failed', attempts = ?3, why = ?4
WHERE seq = ?2 AND destination = ?1;
