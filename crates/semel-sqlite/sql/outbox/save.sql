-- Begins what can be undone without the rest of the transaction.
SAVEPOINT semel_outbox;
