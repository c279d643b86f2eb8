-- Moves the cursor of a destination forward, for its current leader alone.
-- ?1 destination, ?2 epoch, ?3 settled
UPDATE semel_destination SET settled = ?3
WHERE destination = ?1 AND epoch = ?2 AND owner IS NOT NULL AND settled < ?3;
