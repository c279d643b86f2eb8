-- Everything that a store keeps. Instants and spans are in microseconds, instants since the Unix
-- epoch. Names begin with semel_, since the file may be the application's own database.

-- One row: which schema the file has, the last persisted time, and the largest fence ever deleted.
CREATE TABLE semel_meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    floor INTEGER NOT NULL
) STRICT;

INSERT INTO semel_meta (one, schema, time_us, floor) VALUES (1, 1, 0, 0);

-- A table with row ids, not WITHOUT ROWID: new rows then lie side by side on the last page, so that
-- a group of claims and completions dirties few pages, and only the narrow index of the names is hit
-- at random. The outcome is the last column: whoever does not ask for it does not read its pages.
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

-- For the sweep, and for counting finished records without reading them.
CREATE INDEX semel_record_sweep
    ON semel_record (sweep_at_us, state, replay_until_us, remember_until_us)
    WHERE sweep_at_us IS NOT NULL;

-- For what is running, stuck or unknown: few rows among many finished ones.
CREATE INDEX semel_record_held
    ON semel_record (state, claimed_at_us)
    WHERE sweep_at_us IS NULL;

-- For the way from a resource back to its intent.
CREATE INDEX semel_record_pointer
    ON semel_record (pointer_kind, pointer_id, tenant)
    WHERE pointer_id IS NOT NULL;

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

CREATE INDEX semel_audit_intent ON semel_audit (tenant, operation, key, facet);

-- The claims of a caller's own transaction that are not completed yet. No row of it is ever
-- committed: the deferred constraint names a row that cannot exist, so where foreign keys are
-- enforced, COMMIT fails while a claim is open. A claim undone by ROLLBACK TO is noticed by its
-- missing row.
CREATE TABLE semel_pending (
    token BLOB PRIMARY KEY,
    complete_before_commit INTEGER NOT NULL
        REFERENCES semel_meta (one) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
