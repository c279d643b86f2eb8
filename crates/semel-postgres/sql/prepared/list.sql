-- Lists prepared transactions of this database that hold locks like those of names, oldest first.
-- $1 how many at most
SELECT
    p.gid, p.owner::text, (extract(epoch FROM p.prepared) * 1000000)::bigint,
    array_agg((l.classid::bigint << 32) | l.objid::bigint ORDER BY l.classid, l.objid)
FROM pg_catalog.pg_prepared_xacts AS p
JOIN pg_catalog.pg_locks AS l ON l.virtualtransaction = '-1/' || p.transaction::text
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE p.database = current_database() AND d.datname = p.database
    AND l.locktype = 'advisory' AND l.objsubid = 1
GROUP BY p.gid, p.owner, p.prepared
ORDER BY p.prepared
LIMIT $1;
