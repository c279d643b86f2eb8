-- Adds a row to the audit of inboxes.
-- $1 kind, $2 consumer, $3 source, $4 id, $5 who, $6 note
INSERT INTO semel.inbox_audit (at_us, kind, consumer, source, message_id, actor, note)
VALUES (semel.now_us(), $1, $2, $3, $4, $5, $6);
