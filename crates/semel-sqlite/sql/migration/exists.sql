-- Says whether any migration was ever applied.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'semel_migration');
