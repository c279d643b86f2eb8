-- Renews a leadership; for no time, gives it up.
-- $1 destination, $2 epoch, $3 lease in µs
SELECT semel.outbox_renew($1, $2, $3);
