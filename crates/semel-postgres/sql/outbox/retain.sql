-- Drops a partition that every destination has, if there is one.
-- $1 how long events are kept at least, in µs
SELECT dropped, more, held_up
FROM semel.retain_outbox(make_interval(secs => $1::bigint / 1000000.0));
