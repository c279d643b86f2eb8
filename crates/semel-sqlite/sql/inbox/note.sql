-- Adds a row to the audit of inboxes.
-- ?1 at, ?2 kind, ?3 consumer, ?4 source, ?5 id, ?6 who, ?7 note
INSERT INTO semel_inbox_audit (at_us, kind, consumer, source, message_id, actor, note)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
