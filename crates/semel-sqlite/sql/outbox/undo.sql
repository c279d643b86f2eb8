-- Undoes it.
ROLLBACK TO semel_outbox;
