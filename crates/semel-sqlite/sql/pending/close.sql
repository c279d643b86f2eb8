-- Forgets a claim of the caller's transaction that is completed now.
-- ?1 token
DELETE FROM semel_pending WHERE token = ?1;
