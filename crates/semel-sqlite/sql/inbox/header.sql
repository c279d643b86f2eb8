-- Keeps what went beside a parked message.
-- ?1 the copy, ?2 place, ?3 name, ?4 value
INSERT INTO semel_inbox_header (parked, place, name, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (parked, place) DO NOTHING;
