-- Lists prepared transactions of this database that hold locks like those of names, oldest first. They
-- have no process; the lock on its own number tells which one a lock belongs to.
-- $1 how many at most
SELECT
    p.gid, p.owner::text, (extract(epoch FROM p.prepared) * 1000000)::bigint,
    array_agg((l.classid::bigint << 32) | l.objid::bigint ORDER BY l.classid, l.objid)
FROM pg_catalog.pg_prepared_xacts AS p
JOIN pg_catalog.pg_locks AS own
    ON own.locktype = 'transactionid' AND own.transactionid = p.transaction AND own.pid IS NULL
JOIN pg_catalog.pg_locks AS l
    ON l.virtualtransaction = own.virtualtransaction AND l.pid IS NULL
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE p.database = current_database() AND d.datname = p.database
    AND l.locktype = 'advisory' AND l.objsubid = 1
GROUP BY p.gid, p.owner, p.prepared
ORDER BY p.prepared
LIMIT $1;
