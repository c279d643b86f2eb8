-- What consumers had. A message is remembered in the transaction of its effect; attempts are counted and
-- messages parked beside it. Instants and spans are in microseconds, instants since the Unix epoch.

-- (consumer, source, message_id) is unique for as long as it is remembered. Row ids, as in semel_record:
-- new rows lie side by side, and only the index of the names is hit at random.
CREATE TABLE semel_inbox (
    row_id INTEGER PRIMARY KEY,
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 40), -- of the content: plan, then digest
    standing TEXT NOT NULL CHECK (standing IN ('done', 'left-out', 'parked')),
    received_at_us INTEGER NOT NULL,
    remember_until_us INTEGER, -- NULL: for ever, as whatever was once parked
    events TEXT, -- ids of what the run published, a JSON array
    answer BLOB, -- what the run answered
    UNIQUE (consumer, source, message_id)
) STRICT;

-- For the sweep. Nearly always the largest value comes last, which costs an insert the least.
CREATE INDEX semel_inbox_sweep ON semel_inbox (remember_until_us)
    WHERE remember_until_us IS NOT NULL;

-- How often messages were run that have not come to an end. In rows of their own, since what the
-- transaction of an effect counts is rolled back with it.
CREATE TABLE semel_inbox_attempt (
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_at_us INTEGER NOT NULL,
    last_at_us INTEGER NOT NULL,
    PRIMARY KEY (consumer, source, message_id)
) STRICT, WITHOUT ROWID;

-- Copies of messages that could not be handled.
CREATE TABLE semel_inbox_parked (
    row_id INTEGER PRIMARY KEY,
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('failed', 'retry', 'skipped')),
    attempts INTEGER NOT NULL,
    why TEXT NOT NULL,
    parked_at_us INTEGER NOT NULL,
    log TEXT,
    log_offset INTEGER,
    sent_at_us INTEGER,
    "key" BLOB,
    payload BLOB,
    UNIQUE (consumer, source, message_id)
) STRICT;

-- For what is to be run again: few rows among many that wait.
CREATE INDEX semel_inbox_parked_due ON semel_inbox_parked (consumer, parked_at_us)
    WHERE state = 'retry';

-- What went beside a parked message, in its order.
CREATE TABLE semel_inbox_header (
    parked INTEGER NOT NULL,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (parked, place)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER semel_inbox_parked_leaves AFTER DELETE ON semel_inbox_parked
BEGIN
    DELETE FROM semel_inbox_header WHERE parked = old.row_id;
END;

-- Up to where consumers have ordered logs. Moved in the transaction of the effect, and only forward.
CREATE TABLE semel_inbox_position (
    consumer TEXT NOT NULL,
    log TEXT NOT NULL,
    next INTEGER NOT NULL, -- the first offset that was not handled
    moved_at_us INTEGER NOT NULL,
    PRIMARY KEY (consumer, log)
) STRICT, WITHOUT ROWID;

-- What operators said, and messages that came with other content than before.
CREATE TABLE semel_inbox_audit (
    row_id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;

CREATE INDEX semel_inbox_audit_consumer ON semel_inbox_audit (consumer);

UPDATE semel_meta SET schema = 3 WHERE one = 1;
