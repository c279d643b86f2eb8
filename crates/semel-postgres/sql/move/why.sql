-- Says to close.sql why the store is closed, until the end of the transaction.
-- $1 away or arriving
SELECT set_config('semel_move.why', $1, true);
