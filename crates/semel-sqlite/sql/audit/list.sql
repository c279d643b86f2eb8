-- Lists the audit, newest first.
-- ?1 how many at most
SELECT at_us, kind, actor, note, tenant, operation, key, facet
FROM semel_audit
ORDER BY row_id DESC
LIMIT ?1;
