-- Reads the schema, the last persisted time and the floor of the fences.
SELECT schema, time_us, floor FROM semel_meta WHERE one = 1;
