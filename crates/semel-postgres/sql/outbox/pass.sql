-- Tells what is to be read, and opens the next pass if there is something and none is open.
-- $1 destination, $2 epoch, $3 whether a standby must have flushed what it shows
SELECT
    is_known, pass, settled, from_pos, upto_pos, base_pos, from_snapshot, to_snapshot, late,
    floor_pos, old_from, old_to, old_settled, old_upto, now_us
FROM semel.outbox_pass($1, $2, $3);
