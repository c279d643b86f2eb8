-- Lists what was applied.
SELECT version, digest FROM semel.migration ORDER BY version;
