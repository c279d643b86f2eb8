-- Renews a leadership, if it is the current one.
-- ?1 destination, ?2 epoch, ?3 renewed at, ?4 lease
UPDATE semel_destination SET renewed_at_us = ?3, lease_us = ?4
WHERE destination = ?1 AND epoch = ?2 AND owner IS NOT NULL;
