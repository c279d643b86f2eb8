-- Reads what went beside a parked message.
-- ?1 the copy
SELECT name, value FROM semel_inbox_header WHERE parked = ?1 ORDER BY place;
