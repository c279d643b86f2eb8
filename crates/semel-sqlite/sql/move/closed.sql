-- Says why the store is closed; no row if it is open.
SELECT name
FROM sqlite_schema
WHERE type = 'trigger' AND name IN ('semel_away_insert', 'semel_arriving_insert');
