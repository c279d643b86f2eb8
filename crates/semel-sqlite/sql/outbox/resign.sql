-- Gives a leadership up, if it is the current one.
-- ?1 destination, ?2 epoch
UPDATE semel_destination SET owner = NULL WHERE destination = ?1 AND epoch = ?2;
