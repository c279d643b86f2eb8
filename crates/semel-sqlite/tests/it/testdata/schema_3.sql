-- One event has damaged headers.
PRAGMA ignore_check_constraints = ON;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE semel_migration (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    at_us INTEGER NOT NULL
) STRICT;
INSERT INTO semel_migration VALUES(1,'0001_records',X'35d22d11ec9719a916f2e607c32c660643cf937204be023980faf5b7558f24d6',1893456000000000);
INSERT INTO semel_migration VALUES(2,'0002_outbox',X'6564524a8ae04956df640f80f3e585c7cc25e85f5a332831ba3cc6f6dbecbb59',1893456000000000);
INSERT INTO semel_migration VALUES(3,'0003_inbox',X'fc2c79a15b767b4fd3d11ff618f4482daca4018a582a7495fa19610e79fe8684',1893456000000000);
CREATE TABLE semel_meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    floor INTEGER NOT NULL
) STRICT;
INSERT INTO semel_meta VALUES(1,3,1893456000000000,0);
CREATE TABLE semel_record (
    row_id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    operation TEXT NOT NULL,
    key TEXT NOT NULL,
    facet BLOB NOT NULL, -- empty: none; part of a unique name, so never NULL
    state TEXT NOT NULL CHECK (state IN ('done', 'failed', 'open', 'running', 'unknown')),
    token BLOB NOT NULL CHECK (length(token) = 16),
    fence INTEGER NOT NULL,
    plan BLOB NOT NULL CHECK (length(plan) = 8),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    renewed_at_us INTEGER NOT NULL,
    lease_us INTEGER NOT NULL,
    takeovers INTEGER NOT NULL,
    compare INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    claimed_at_us INTEGER NOT NULL,
    settled_at_us INTEGER,
    claimed_by TEXT,
    reason TEXT,
    resolved_by BLOB,
    pointer_kind TEXT,
    pointer_id TEXT,
    replay_until_us INTEGER NOT NULL,
    remember_until_us INTEGER NOT NULL,
    sweep_at_us INTEGER, -- when the sweep has next something to do with this row; NULL: never
    outcome BLOB, -- the bytes of semel's codec
    UNIQUE (tenant, operation, key, facet)
) STRICT;
CREATE TABLE semel_audit (
    row_id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    operation TEXT NOT NULL,
    key TEXT NOT NULL,
    facet BLOB NOT NULL,
    actor TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
CREATE TABLE semel_pending (
    token BLOB PRIMARY KEY,
    complete_before_commit INTEGER NOT NULL
        REFERENCES semel_meta (one) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
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
INSERT INTO semel_outbox VALUES(1,'01010101-0101-0101-0101-010101010101','order','order-7','OrderPlaced','{"content-type":"a \"b\""}',1893456000000000,7,'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01','acme','payments.create','k',X'0707070707070707070707070707070707070707070707070707070707070707','request:request-7',X'0100ff');
INSERT INTO semel_outbox VALUES(2,'02020202-0202-0202-0202-020202020202','order','order-7','OrderPlaced','{}',1893456000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO semel_outbox VALUES(3,'03030303-0303-0303-0303-030303030303','order','order-7','OrderPlaced','{',1893456000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'0300ff');
INSERT INTO semel_outbox VALUES(4,'04040404-0404-0404-0404-040404040404','order','order-7','OrderPlaced','{}',1893456000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'0400ff');
INSERT INTO semel_outbox VALUES(5,'05050505-0505-0505-0505-050505050505','order','order-7','OrderPlaced','{}',1893456000000000,NULL,NULL,NULL,NULL,NULL,NULL,'message:kafka:orders a',X'0500ff');
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
INSERT INTO semel_destination VALUES('a',1893456000000000,1,'relay-1',1893456000000000,10000000,1,3);
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
INSERT INTO semel_parked VALUES(1,'a',1,1,'01010101-0101-0101-0101-010101010101','order','order-7','OrderPlaced','{"content-type":"a \"b\""}',1893456000000000,7,'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01','acme','payments.create','k',X'0707070707070707070707070707070707070707070707070707070707070707','request:request-7',1,'retry',1,'no',NULL,1893456000000000,X'0100ff');
INSERT INTO semel_parked VALUES(2,'a',1,2,'02020202-0202-0202-0202-020202020202','order','order-7','OrderPlaced','{}',1893456000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'behind',0,'',NULL,1893456000000000,NULL);
INSERT INTO semel_parked VALUES(3,'a',1,3,'03030303-0303-0303-0303-030303030303','order','order-7','OrderPlaced','{',1893456000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'failed',1,'no','the headers of an event are no object of text',1893456000000000,X'0300ff');
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
INSERT INTO semel_outbox_audit VALUES(1,1893456000000000,'retry','a','01010101-0101-0101-0101-010101010101',1,'ada','ticket 7');
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
INSERT INTO semel_inbox VALUES(1,'billing','kafka:orders','a',X'defaff6ffe090a14f3dd9b0283f26655ca3df93141469ad9a1fed8fc5e7d659e9ffcc22ee434e826','done',1893456000000000,1896048000000000,'["05050505-0505-0505-0505-050505050505"]',X'70616964');
INSERT INTO semel_inbox VALUES(2,'billing','kafka:orders','m7',X'defaff6ffe090a14f3dd9b0283f26655ca3df93141469ad9a1fed8fc5e7d659e9ffcc22ee434e826','parked',1893456000000000,NULL,NULL,NULL);
CREATE TABLE semel_inbox_attempt (
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_at_us INTEGER NOT NULL,
    last_at_us INTEGER NOT NULL,
    PRIMARY KEY (consumer, source, message_id)
) STRICT, WITHOUT ROWID;
INSERT INTO semel_inbox_attempt VALUES('billing','kafka:orders','c',1,1893456000000000,1893456000000000);
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
INSERT INTO semel_inbox_parked VALUES(1,'billing','kafka:orders','m7','retry',8,'cannot be read',1893456000000000,'orders/0',7,1700000000000000,X'6f726465722d37',X'3130');
CREATE TABLE semel_inbox_header (
    parked INTEGER NOT NULL,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (parked, place)
) STRICT, WITHOUT ROWID;
INSERT INTO semel_inbox_header VALUES(1,0,'trace',X'00ff');
CREATE TABLE semel_inbox_position (
    consumer TEXT NOT NULL,
    log TEXT NOT NULL,
    next INTEGER NOT NULL, -- the first offset that was not handled
    moved_at_us INTEGER NOT NULL,
    PRIMARY KEY (consumer, log)
) STRICT, WITHOUT ROWID;
INSERT INTO semel_inbox_position VALUES('billing','orders/0',7,1893456000000000);
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
INSERT INTO semel_inbox_audit VALUES(1,1893456000000000,'retry','billing','kafka:orders','m7','ada','ticket 7');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('semel_outbox',5);
INSERT INTO sqlite_sequence VALUES('semel_parked',3);
CREATE INDEX semel_record_sweep
    ON semel_record (sweep_at_us, state, replay_until_us, remember_until_us)
    WHERE sweep_at_us IS NOT NULL;
CREATE INDEX semel_record_held
    ON semel_record (state, claimed_at_us)
    WHERE sweep_at_us IS NULL;
CREATE INDEX semel_record_pointer
    ON semel_record (pointer_kind, pointer_id, tenant)
    WHERE pointer_id IS NOT NULL;
CREATE INDEX semel_audit_intent ON semel_audit (tenant, operation, key, facet);
CREATE UNIQUE INDEX semel_outbox_id ON semel_outbox (id);
CREATE INDEX semel_outbox_intent ON semel_outbox (key, operation, tenant) WHERE key IS NOT NULL;
CREATE INDEX semel_parked_lane ON semel_parked (destination, aggregatetype, aggregateid, seq);
CREATE INDEX semel_parked_head ON semel_parked (destination, aggregatetype, aggregateid)
    WHERE head = 1;
CREATE INDEX semel_parked_due ON semel_parked (destination, seq)
    WHERE head = 1 AND state <> 'failed';
CREATE INDEX semel_outbox_audit_destination ON semel_outbox_audit (destination);
CREATE INDEX semel_inbox_sweep ON semel_inbox (remember_until_us)
    WHERE remember_until_us IS NOT NULL;
CREATE INDEX semel_inbox_parked_due ON semel_inbox_parked (consumer, parked_at_us)
    WHERE state = 'retry';
CREATE INDEX semel_inbox_audit_consumer ON semel_inbox_audit (consumer);
CREATE TRIGGER semel_outbox_grows AFTER INSERT ON semel_outbox
WHEN
    new.pos <= coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'semel_outbox'), 0)
    OR new.pos > 4611686018427387904
BEGIN
    SELECT RAISE(ABORT, 'semel_outbox: positions come by themselves; leave pos out');
END;
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
CREATE TRIGGER semel_outbox_begins_anew AFTER INSERT ON semel_outbox
WHEN new.pos <= (SELECT max(settled) FROM semel_destination)
BEGIN
    UPDATE semel_destination
    SET settled = new.pos - 1, generation = generation + 1, pass = pass + 1, owner = NULL
    WHERE settled >= new.pos;
END;
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
CREATE TRIGGER semel_inbox_parked_leaves AFTER DELETE ON semel_inbox_parked
BEGIN
    DELETE FROM semel_inbox_header WHERE parked = old.row_id;
END;
COMMIT;
