-- Writes a leadership.
-- ?1 destination, ?2 epoch, ?3 generation, ?4 owner, ?5 renewed at, ?6 lease, ?7 settled
INSERT INTO semel_destination (
    destination, epoch, generation, owner, renewed_at_us, lease_us, settled
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (destination) DO UPDATE SET
    epoch = ?2, generation = ?3, owner = ?4, renewed_at_us = ?5, lease_us = ?6, settled = ?7;
