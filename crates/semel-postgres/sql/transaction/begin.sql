-- Begins a transaction of Semel's own: bounded on the server too, should this process vanish.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '1s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
SELECT semel.commits_durably();
