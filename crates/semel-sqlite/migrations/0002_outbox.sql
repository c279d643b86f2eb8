-- What leaves: events, where each destination is with them, and what could not be sent. Instants and
-- spans are in microseconds, instants since the Unix epoch.

-- One row per event, in the names of Debezium's outbox. Any language may insert here, inside its own
-- transaction: pos, id, headers and at_us come by themselves. What the checks refuse, the caller
-- learns before it commits; they hold what a relay must be able to read. Positions are in the order
-- of commits, since one transaction writes at a time, and none is used twice (AUTOINCREMENT): a cursor
-- over them skips nothing. The payload is the last column: whoever looks for an event by another
-- column does not read its pages.
CREATE TABLE semel_outbox (
    pos INTEGER PRIMARY KEY AUTOINCREMENT,
    -- A UUID, of version 4 unless the caller draws one.
    id TEXT NOT NULL DEFAULT (lower(
        hex(randomblob(4)) || '-' || hex(randomblob(2))
        || '-4' || substr(hex(randomblob(2)), 2)
        || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2)
        || '-' || hex(randomblob(6))
    )),
    aggregatetype TEXT NOT NULL,
    aggregateid TEXT NOT NULL,
    type TEXT NOT NULL,
    headers TEXT NOT NULL DEFAULT '{}',
    at_us INTEGER NOT NULL
        DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    aggregate_version INTEGER,
    trace TEXT,
    tenant TEXT, -- the intent that it is an effect of: all four or none
    operation TEXT,
    key TEXT,
    facet BLOB,
    cause TEXT,
    payload ANY, -- bytes or text; NULL is a tombstone
    CONSTRAINT id_is_a_lower_case_uuid CHECK (
        length(id) = 36
        AND id GLOB '????????-????-????-????-????????????'
        AND replace(id, '-', '') NOT GLOB '*[^0-9a-f]*'
        AND length(replace(id, '-', '')) = 32
    ),
    CONSTRAINT aggregatetype_is_1_to_255_bytes_of_text CHECK (
        length(CAST(aggregatetype AS BLOB)) BETWEEN 1 AND 255
        AND aggregatetype NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        AND instr(aggregatetype, char(0)) = 0
    ),
    CONSTRAINT aggregateid_is_1_to_255_bytes_of_text CHECK (
        length(CAST(aggregateid AS BLOB)) BETWEEN 1 AND 255
        AND aggregateid NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        AND instr(aggregateid, char(0)) = 0
    ),
    CONSTRAINT type_is_1_to_255_bytes_of_text CHECK (
        length(CAST(type AS BLOB)) BETWEEN 1 AND 255
        AND type NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        AND instr(type, char(0)) = 0
    ),
    CONSTRAINT headers_are_a_json_object CHECK (
        json_valid(headers) AND json_type(headers) = 'object'
    ),
    CONSTRAINT at_us_is_an_instant CHECK (at_us >= 0),
    CONSTRAINT trace_is_1_to_512_bytes_of_text CHECK (
        trace IS NULL
        OR length(CAST(trace AS BLOB)) BETWEEN 1 AND 512
        AND trace NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        AND instr(trace, char(0)) = 0
    ),
    CONSTRAINT intent_is_whole_or_absent CHECK (
        (tenant IS NULL) = (key IS NULL) AND (operation IS NULL) = (key IS NULL)
        AND (facet IS NULL) = (key IS NULL)
    ),
    CONSTRAINT cause_is_1_to_800_bytes_of_text CHECK (
        cause IS NULL
        OR length(CAST(cause AS BLOB)) BETWEEN 1 AND 800
        AND cause NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        AND instr(cause, char(0)) = 0
    ),
    CONSTRAINT payload_is_bytes_or_text_of_at_most_1_mib CHECK (
        typeof(payload) IN ('blob', 'text', 'null')
        AND coalesce(length(CAST(payload AS BLOB)), 0) <= 1048576
    )
) STRICT;

-- One name, one event: a second one under a name would be dropped by whoever knows copies by it.
CREATE UNIQUE INDEX semel_outbox_id ON semel_outbox (id);

-- From an intent to what it told.
CREATE INDEX semel_outbox_intent ON semel_outbox (key, operation, tenant) WHERE key IS NOT NULL;

-- A position that somebody names lies near the end or nowhere: behind the largest of all nothing could
-- be appended. (SQLite writes the last position down at the end of the statement, after this trigger.)
CREATE TRIGGER semel_outbox_grows AFTER INSERT ON semel_outbox
WHEN
    new.pos <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'semel_outbox'), 0)
    OR new.pos > 4611686018427387904
BEGIN
    SELECT RAISE(ABORT, 'semel_outbox: positions come by themselves; leave pos out');
END;

-- What a check cannot look into.
CREATE TRIGGER semel_outbox_headers AFTER INSERT ON semel_outbox
WHEN new.headers <> '{}'
BEGIN
    SELECT RAISE(ABORT, 'semel_outbox: headers are up to 64 names of up to 128 bytes with text of up to 4096')
    FROM json_each(new.headers)
    WHERE
        type <> 'text'
        OR length(CAST(json_each.key AS BLOB)) NOT BETWEEN 1 AND 128
        OR length(CAST(value AS BLOB)) > 4096
        OR json_each.key || value GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        OR (SELECT count(*) FROM json_each(new.headers)) > 64
    LIMIT 1;
END;

CREATE TRIGGER semel_outbox_stays BEFORE UPDATE OF pos ON semel_outbox
BEGIN
    SELECT RAISE(ABORT, 'semel_outbox: the position of an event never changes');
END;

-- Where a destination is. All events up to settled are confirmed or parked. A pass is what lies behind
-- it; its number grows when its end is settled.
CREATE TABLE semel_destination (
    destination TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL, -- larger for each leader, and never one that was given away before
    generation INTEGER NOT NULL, -- larger for each time that positions were found to have begun anew
    owner TEXT, -- NULL: nobody leads
    renewed_at_us INTEGER NOT NULL,
    lease_us INTEGER NOT NULL,
    pass INTEGER NOT NULL,
    settled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- SQLite's memory of positions can be emptied by hand, and positions then begin anew. No event may lie
-- before a cursor that has not seen it: the cursor goes back, whoever leads must lead anew, and what is
-- parked under the old positions is of another generation.
CREATE TRIGGER semel_outbox_begins_anew AFTER INSERT ON semel_outbox
WHEN new.pos <= (SELECT max(settled) FROM semel_destination)
BEGIN
    UPDATE semel_destination
    SET settled = new.pos - 1, generation = generation + 1, pass = pass + 1, owner = NULL
    WHERE settled >= new.pos;
END;

-- What could not be sent, and what waits behind it: copies, so that the events themselves may go. Its
-- columns are the outbox's, which are checked there; a copy of a row that cannot be read is kept as it
-- is, but for its aggregate, which is a lane here and so always text.
CREATE TABLE semel_parked (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    generation INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    id TEXT NOT NULL,
    aggregatetype TEXT NOT NULL,
    aggregateid TEXT NOT NULL,
    type TEXT NOT NULL,
    headers TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    aggregate_version INTEGER,
    trace TEXT,
    tenant TEXT,
    operation TEXT,
    key TEXT,
    facet BLOB,
    cause TEXT,
    head INTEGER NOT NULL, -- 1: the first of its lane
    state TEXT NOT NULL CHECK (state IN ('behind', 'drop', 'failed', 'retry', 'skip')),
    attempts INTEGER NOT NULL,
    why TEXT NOT NULL,
    unreadable TEXT, -- why it cannot be read as an event; whoever repairs it sets NULL
    parked_at_us INTEGER NOT NULL,
    payload ANY,
    UNIQUE (destination, generation, pos)
) STRICT;

CREATE INDEX semel_parked_lane ON semel_parked (destination, aggregatetype, aggregateid, seq);

-- Of long lanes only the heads are looked at.
CREATE INDEX semel_parked_head ON semel_parked (destination, aggregatetype, aggregateid)
    WHERE head = 1;
CREATE INDEX semel_parked_due ON semel_parked (destination, seq)
    WHERE head = 1 AND state <> 'failed';

-- When the first of a lane goes, the next is the first.
CREATE TRIGGER semel_parked_leaves AFTER DELETE ON semel_parked
WHEN old.head = 1
BEGIN
    UPDATE semel_parked SET head = 1
    WHERE seq = (
        SELECT min(seq) FROM semel_parked
        WHERE
            destination = old.destination AND aggregatetype = old.aggregatetype
            AND aggregateid = old.aggregateid
    );
END;

-- What operators said about destinations.
CREATE TABLE semel_outbox_audit (
    row_id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    destination TEXT NOT NULL,
    event TEXT,
    rows INTEGER NOT NULL,
    actor TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;

CREATE INDEX semel_outbox_audit_destination ON semel_outbox_audit (destination);

UPDATE semel_meta SET schema = 2 WHERE one = 1;
