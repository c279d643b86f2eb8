-- Takes the leadership of a destination, if nobody holds it.
-- $1 destination, $2 owner, $3 lease in µs, $4 whether a new destination begins with what comes now
SELECT leads, epoch, generation::bigint, owner, ends_in_us
FROM semel.outbox_lead($1, $2, $3, $4);
