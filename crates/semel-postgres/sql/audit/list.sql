-- Lists the audit, newest first.
-- $1 how many at most
SELECT tenant, operation, key, facet, at_us, kind, actor, note
FROM semel.audit
ORDER BY row_id DESC
LIMIT $1;
