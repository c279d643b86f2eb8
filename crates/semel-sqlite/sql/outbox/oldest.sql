-- Reads where the oldest event lies, and when it was appended.
SELECT pos, at_us FROM semel_outbox ORDER BY pos LIMIT 1;
