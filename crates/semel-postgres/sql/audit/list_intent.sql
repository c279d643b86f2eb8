-- Lists the audit of one intent, newest first.
-- $1 how many at most, $2 tenant, $3 operation, $4 key, $5 facet (empty: none)
SELECT tenant, operation, key, facet, at_us, kind, actor, note
FROM semel.audit
WHERE tenant = $2 AND operation = $3 AND key = $4 AND facet = $5
ORDER BY row_id DESC
LIMIT $1;
