-- Tries the locks of names, until the end of the transaction, and says in order which were free.
-- $1 locks
SELECT pg_try_advisory_xact_lock(a.lock)
FROM unnest($1::bigint[]) WITH ORDINALITY AS a (lock, nr)
ORDER BY a.nr;
