-- Picks those positions whose transactions a pass does not show yet.
-- $1 positions, $2 what the pass shows
SELECT o.pos
FROM semel.outbox AS o
WHERE o.pos = ANY ($1) AND NOT pg_visible_in_snapshot(o.xid, $2::text::pg_snapshot);
