-- Drops a replication slot that nobody reads, if it is there.
-- $1 name of the slot
SELECT pg_drop_replication_slot(s.slot_name)
FROM pg_replication_slots AS s
WHERE s.slot_name = $1 AND NOT s.active;
