-- Tells how far a take-over is.
-- $1 the table, $2 the replication slot of whoever read it before (NULL: none)
SELECT i.switched_at::text, semel.import_slot($1::text::regclass, $2)
FROM semel.import_state($1::text::regclass) AS i;
