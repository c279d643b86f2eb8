-- Remembers that a claim of the caller's transaction is not completed.
-- ?1 token
INSERT INTO semel_pending (token, complete_before_commit) VALUES (?1, 0);
