-- Deletes the oldest rows past the bound. The newest row always stays, so row ids keep growing.
-- ?1 how many stay
DELETE FROM semel_inbox_audit WHERE row_id <= (SELECT max(row_id) FROM semel_inbox_audit) - ?1;
