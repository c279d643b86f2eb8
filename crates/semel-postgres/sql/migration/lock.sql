-- Lets one process migrate at a time: until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('semel.migration', 0));
