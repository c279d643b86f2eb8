-- Picks those positions whose transactions a snapshot does not show.
-- $1 positions, $2 the snapshot, $3 behind which no position was drawn before it
SELECT u.pos FROM semel.outbox_unseen($1, $2::text::pg_snapshot, $3) AS u (pos);
