-- The last position in the table.
SELECT coalesce(max(pos), 0) FROM semel_outbox;
