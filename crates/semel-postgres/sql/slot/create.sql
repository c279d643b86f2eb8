-- Makes a replication slot.
-- $1 name of the slot
SELECT slot_name FROM pg_create_logical_replication_slot($1, 'pgoutput');
