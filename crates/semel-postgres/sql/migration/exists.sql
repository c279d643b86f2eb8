-- Says whether the schema was made by a migration. It reads a catalog, whose lock makes the session take
-- notice of what others made since the transaction began: the function alone answers from its cache.
SELECT to_regclass('semel.migration') IS NOT NULL FROM pg_catalog.pg_database LIMIT 1;
