-- Reads where a destination is, and the last position in the table.
-- ?1 destination
SELECT epoch, generation, owner, renewed_at_us, lease_us, pass, settled,
    coalesce((SELECT max(pos) FROM semel_outbox), 0)
FROM semel_destination
WHERE destination = ?1;
