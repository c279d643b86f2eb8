-- Lists the migrations that were applied, in order.
SELECT version, digest FROM semel_migration ORDER BY version;
