-- Deletes the lease of a claim that has ended.
-- $1 token
DELETE FROM semel.lease WHERE token = $1;
