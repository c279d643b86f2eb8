-- Lists the audit as it was written, oldest first.
-- $1 after this row, $2 how many at most
SELECT tenant, operation, key, facet, at_us, kind, actor, note, row_id
FROM semel.audit
WHERE row_id > $1
ORDER BY row_id
LIMIT $2;
