-- Writes what a leader has done, if it still leads and the pass is still this one.
-- $1 destination, $2 epoch, $3 pass (NULL: none), $4 up to which position, $5 whether the pass ends;
-- rows to park: $6 positions, $7 states, $8 attempts, $9 reasons; parked rows: $10 sent, $11 left out,
-- $12 failed, with $13 attempts and $14 reasons
SELECT semel.outbox_settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);
