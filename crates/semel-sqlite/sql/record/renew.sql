-- Renews a lease. A statement of its own, since it touches no index.
-- ?1 row, ?2 token seen, ?3 fence seen, ?4 renewed at, ?5 lease
UPDATE semel_record
SET renewed_at_us = ?4, lease_us = ?5
WHERE row_id = ?1 AND token = ?2 AND fence = ?3 AND state = 'running';
