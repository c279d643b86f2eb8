-- Moves the cursor of a destination forward, for its current leader alone.
-- ?1 destination, ?2 epoch, ?3 pass, ?4 settled, ?5 0 or 1: whether that ends the pass
UPDATE semel_destination SET settled = ?4, pass = pass + ?5
WHERE
    destination = ?1 AND epoch = ?2 AND owner IS NOT NULL AND pass = ?3 AND settled <= ?4;
