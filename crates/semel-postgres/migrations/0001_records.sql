-- Everything that a store keeps. Instants and spans are in microseconds, instants since the Unix
-- epoch, all by the server's clock. The schema's name is put in for `semel.` when this is applied.

-- One row: the oldest version of the schema whose users can work with this one, the secret of the
-- locks, and the largest fence ever deleted.
CREATE TABLE semel.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    oldest bigint NOT NULL,
    lock_secret bytea NOT NULL CHECK (octet_length(lock_secret) = 32),
    floor bigint NOT NULL
);

-- A secret, so that nobody can choose keys of one tenant that share a lock with another's.
INSERT INTO semel.meta (oldest, lock_secret, floor)
VALUES (1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 0);

-- Not partitioned by time: a name must stay unique for as long as it is remembered. Names compare by
-- their bytes, so that no collation of the database decides what is equal or where a page begins.
-- Without CHECK constraints: the server reads and plans each of them anew at every insert, which took
-- a fifth of the claim; whoever writes here keeps the bounds.
CREATE TABLE semel.record (
    tenant text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    facet bytea NOT NULL DEFAULT '', -- empty: none
    state text COLLATE "C" NOT NULL,
    token bytea NOT NULL,
    fence bigint NOT NULL,
    plan bytea NOT NULL,
    digest bytea NOT NULL,
    renewed_at_us bigint NOT NULL, -- as claimed; renewals are in semel.lease
    lease_us bigint, -- NULL: claimed inside a transaction, which is the lease
    takeovers bigint NOT NULL DEFAULT 0,
    compare boolean NOT NULL DEFAULT false,
    incarnation bigint NOT NULL DEFAULT 0,
    created_at_us bigint NOT NULL,
    claimed_at_us bigint NOT NULL,
    settled_at_us bigint,
    claimed_by text,
    reason text,
    resolved_by bytea,
    pointer_kind text,
    pointer_id text,
    replay_until_us bigint NOT NULL,
    remember_until_us bigint NOT NULL,
    sweep_at_us bigint, -- when the sweep has next something to do with this row; NULL: never
    outcome bytea, -- the bytes of semel's codec
    PRIMARY KEY (tenant, operation, key, facet)
);

-- For the sweep, and for counting finished records.
CREATE INDEX record_sweep ON semel.record (sweep_at_us) WHERE sweep_at_us IS NOT NULL;

-- For what is running, stuck or unknown: few rows among many finished ones.
CREATE INDEX record_held ON semel.record (state, claimed_at_us) WHERE sweep_at_us IS NULL;

-- For the way from a resource back to its intent.
CREATE INDEX record_pointer ON semel.record (pointer_kind, pointer_id, tenant)
    WHERE pointer_id IS NOT NULL;

-- Leases that were renewed: written by renewals and take-overs alone. In rows of their own, so that a
-- completion inside an application's REPEATABLE READ transaction never meets a renewal of its record.
CREATE TABLE semel.lease (
    token bytea PRIMARY KEY,
    fence bigint NOT NULL,
    renewed_at_us bigint NOT NULL,
    lease_us bigint NOT NULL
) WITH (fillfactor = 50);

-- A record with its lease as last renewed: what every claim decides by.
CREATE VIEW semel.seen AS
SELECT
    r.tenant, r.operation, r.key, r.facet, r.state, r.token, r.fence, r.plan, r.digest,
    coalesce(l.renewed_at_us, r.renewed_at_us) AS renewed_at_us,
    coalesce(l.lease_us, r.lease_us) AS lease_us,
    r.takeovers, r.compare, r.incarnation, r.created_at_us, r.claimed_at_us, r.settled_at_us,
    r.claimed_by, r.reason, r.resolved_by, r.pointer_kind, r.pointer_id, r.replay_until_us,
    r.remember_until_us, r.sweep_at_us, r.outcome
FROM semel.record AS r
LEFT JOIN semel.lease AS l ON l.token = r.token AND l.fence = r.fence;

-- What a business reference, such as an order number, was used for: it outlives the key.
CREATE TABLE semel.reference (
    tenant text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    reference text COLLATE "C" NOT NULL CHECK (octet_length(reference) BETWEEN 1 AND 255),
    key text COLLATE "C" NOT NULL,
    facet bytea NOT NULL,
    pointer_kind text,
    pointer_id text,
    created_at_us bigint NOT NULL,
    until_us bigint, -- NULL: for ever
    PRIMARY KEY (tenant, operation, reference)
);

CREATE INDEX reference_until ON semel.reference (until_us) WHERE until_us IS NOT NULL;

CREATE TABLE semel.audit (
    row_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at_us bigint NOT NULL,
    kind text NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    facet bytea NOT NULL,
    actor text NOT NULL,
    note text NOT NULL
);

CREATE INDEX audit_intent ON semel.audit (tenant, operation, key, facet);

-- The time that decides everything: read when it decides, not when the transaction began.
CREATE FUNCTION semel.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- The lock of a name: the first 8 bytes of a digest of the secret and the four parts of the name, each
-- led by its length in 4 bytes. A business reference has the lock of the name (tenant, operation,
-- reference, 'R'): no facet of an intent has one byte.
CREATE FUNCTION semel.lock_hash(tenant text, operation text, key text, facet bytea) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE -- plpgsql keeps its plan from call to call
AS $$
BEGIN
    RETURN ('x' || encode(substr(sha256(
        m.lock_secret
        || int4send(octet_length(convert_to(tenant, 'UTF8'))) || convert_to(tenant, 'UTF8')
        || int4send(octet_length(operation)) || convert_to(operation, 'UTF8')
        || int4send(octet_length(convert_to(key, 'UTF8'))) || convert_to(key, 'UTF8')
        || int4send(octet_length(facet)) || facet
    ), 1, 8), 'hex'))::bit(64)::bigint
    FROM semel.meta AS m;
END
$$;

-- Fails the statement that calls it, and with it the transaction: a statement of plain SQL cannot
-- raise by itself.
CREATE FUNCTION semel.refuse(code text, message text, hint text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
END
$$;

-- Makes the transaction flush before its commit is answered, where a setting of the server, database or
-- role would not. A wait for standbys is left as it is set.
CREATE FUNCTION semel.commits_durably() RETURNS boolean
LANGUAGE sql VOLATILE
AS $$
    SELECT CASE
        WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', true) IS NOT NULL
        ELSE true
    END
$$;

-- A commit without completion fails. The trigger is asked at the end of the transaction and reads
-- again, since the row that it was told of may have been completed, or undone, since.
CREATE FUNCTION semel.completed_before_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM semel.record AS r
    WHERE r.tenant = NEW.tenant AND r.operation = NEW.operation AND r.key = NEW.key
        AND r.facet = NEW.facet AND r.state = 'running' AND r.lease_us IS NULL;
    IF FOUND THEN
        RAISE EXCEPTION 'semel: the transaction claimed % % and did not complete it',
            NEW.operation, NEW.key
            USING ERRCODE = 'SM004',
                HINT = 'call complete, fail or release before COMMIT, outside of savepoints that are '
                    'rolled back; claim and complete in one transaction, not in autocommit';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER completed_before_commit
AFTER INSERT OR UPDATE ON semel.record
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW
WHEN (NEW.state = 'running' AND NEW.lease_us IS NULL)
EXECUTE FUNCTION semel.completed_before_commit();
