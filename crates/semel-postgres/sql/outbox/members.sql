-- Lists the positions of a pass, and tells how far the log is by now.
-- $1 what is settled, up to a position; $2 behind which no position was drawn before the pass before, $3
-- behind which the pass has nothing, $4 what came with a dump, $5 what the pass before showed, $6 what
-- this one shows, $7 transactions that were open then and are not now, $8 how many
SELECT l.lsn::text, m.pos
FROM (SELECT pg_current_wal_insert_lsn() AS lsn) AS l
LEFT JOIN semel.outbox_members(
    $1, $2, $3, $4, $5::text::pg_snapshot, $6::text::pg_snapshot, $7::text::xid8[], $8
) AS m (pos) ON true;
