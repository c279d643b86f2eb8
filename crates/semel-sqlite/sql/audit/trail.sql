-- Lists the audit as it was written, oldest first.
-- ?1 after this row, ?2 how many at most
SELECT at_us, kind, actor, note, tenant, operation, key, facet, row_id
FROM semel_audit
WHERE row_id > ?1
ORDER BY row_id
LIMIT ?2;
