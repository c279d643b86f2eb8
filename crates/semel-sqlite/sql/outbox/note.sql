-- Adds what an operator said.
-- ?1 at, ?2 kind, ?3 destination, ?4 event or NULL, ?5 how many rows it changed, ?6 actor, ?7 note
INSERT INTO semel_outbox_audit (at_us, kind, destination, event, rows, actor, note)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
