-- Finds the charge of a key. ?1 the key.
SELECT id FROM charge WHERE dedup = ?1
