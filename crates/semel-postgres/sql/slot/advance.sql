-- Confirms what a slot has up to a place in the log: it never comes again.
-- $1 name of the slot, $2 the place
SELECT pg_replication_slot_advance(s.slot_name, $2::text::pg_lsn)
FROM pg_replication_slots AS s
WHERE s.slot_name = $1 AND s.confirmed_flush_lsn < $2::text::pg_lsn;
