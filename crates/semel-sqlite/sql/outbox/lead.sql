-- Writes a leadership.
-- ?1 destination, ?2 epoch, ?3 owner, ?4 renewed at, ?5 lease, ?6 where a new destination begins
INSERT INTO semel_destination (
    destination, epoch, generation, owner, renewed_at_us, lease_us, pass, settled
) VALUES (?1, ?2, 1, ?3, ?4, ?5, 1, ?6)
ON CONFLICT (destination) DO UPDATE SET epoch = ?2, owner = ?3, renewed_at_us = ?4, lease_us = ?5;
