-- Ends what could be undone.
RELEASE semel_outbox;
