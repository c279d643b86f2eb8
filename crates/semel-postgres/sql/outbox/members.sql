-- Lists the positions of a pass, and tells how far the log is by now.
-- $1 what is settled, up to a position; $2 behind which no position was drawn before the pass before, $3
-- behind which the pass has nothing, $4 what came with a dump, $5 what the pass before showed, $6 what
-- this one shows, $7 transactions that were open then and are not now, $8 how many
SELECT l.lsn::text, m.pos
FROM (SELECT pg_current_wal_insert_lsn() AS lsn) AS l
LEFT JOIN (
    SELECT o.pos
    FROM (
        SELECT e.pos
        FROM unnest($7::text::xid8[]) AS x (xid)
        JOIN semel.outbox AS e ON e.xid = x.xid
        WHERE e.pos > $4 AND e.pos <= $2
        UNION ALL
        SELECT e.pos
        FROM semel.outbox AS e
        WHERE e.pos > greatest($2, $4) AND e.pos <= $3
            AND pg_visible_in_snapshot(e.xid, $6::text::pg_snapshot)
            AND NOT pg_visible_in_snapshot(e.xid, $5::text::pg_snapshot)
    ) AS o
    WHERE o.pos > $1
    LIMIT $8
) AS m ON true;
