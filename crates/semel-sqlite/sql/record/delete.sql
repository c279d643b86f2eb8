-- Deletes a record that is remembered no longer.
-- ?1 row, ?2 now
DELETE FROM semel_record
WHERE row_id = ?1 AND state IN ('done', 'failed', 'open') AND remember_until_us <= ?2;
