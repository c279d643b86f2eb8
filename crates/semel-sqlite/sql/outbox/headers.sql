-- Takes the headers of an event apart; of what is no object it yields one row without a name.
-- ?1 the headers
SELECT key, value, type
FROM json_each(iif(json_valid(?1) AND json_type(?1) = 'object', ?1, 'false'));
