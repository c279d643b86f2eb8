-- Reads what a slot has up to a place in the log, and leaves it there.
-- $1 name of the slot, $2 the place, $3 name of the publication
SELECT c.data
FROM pg_logical_slot_peek_binary_changes(
    $1, $2::text::pg_lsn, NULL, 'proto_version', '1', 'publication_names', $3
) AS c;
