-- Forgets a destination that nobody leads, and keeps who said it.
-- $1 destination, $2 actor, $3 note
SELECT semel.outbox_forget($1, $2, $3);
