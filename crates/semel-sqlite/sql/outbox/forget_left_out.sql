-- Nothing is left out of a destination that begins anew.
-- ?1 destination
DELETE FROM semel_left_out WHERE destination = ?1;
