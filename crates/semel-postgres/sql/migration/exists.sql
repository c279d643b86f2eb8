-- Says whether the schema was made by a migration.
SELECT to_regclass('semel.migration') IS NOT NULL;
