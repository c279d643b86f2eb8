-- Forgets what was left out whose events are gone, and says whether there may be more.
-- $1 how much at once
SELECT semel.outbox_trim_left_out($1);
