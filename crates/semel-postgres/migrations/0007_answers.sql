-- What the sweep has dropped stays forgotten, also by a clock that is behind the one it was dropped by,
-- as that of a promoted standby: a finished record without an outcome has nothing to replay. And under
-- reconcile whoever reopens an intent is told to ask first.

-- As in 0003_claim, and what has no outcome is judged as past its replay.
CREATE OR REPLACE FUNCTION semel.look(
    tenant text, operation text, key text, facet bytea, asked_digest bytea, compare text, on_lost text,
    lock bigint, OUT seen semel.seen, OUT met text, OUT now_us bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    FOR pass IN 1 .. 2 LOOP
        SELECT s.* INTO seen FROM semel.seen AS s
        WHERE s.tenant = look.tenant AND s.operation = look.operation AND s.key = look.key
            AND s.facet = look.facet;
        now_us := semel.now_us();
        met := CASE
            WHEN seen.state = 'running' AND seen.lease_us IS NULL THEN 'held'
            ELSE semel.judge(
                seen.state, seen.plan, seen.digest, seen.compare,
                seen.renewed_at_us::numeric + seen.lease_us,
                CASE WHEN seen.outcome IS NULL THEN 0 ELSE seen.replay_until_us END,
                seen.remember_until_us, asked_digest, compare, on_lost, now_us
            )
        END;
        -- A lease that was renewed in the future, as by a promoted standby's clock, is rewritten.
        IF met = 'in-progress' AND seen.renewed_at_us > now_us THEN
            met := 'rewind';
        END IF;
        EXIT WHEN pass = 2 OR met NOT IN (
            'fresh', 'lose', 'reconcile', 'reopened', 'rerun', 'rewind'
        );
        IF strpos(current_setting('semel_claim.marks', true), ' ' || lock || ':') > 0 THEN
            met := 'held';
            EXIT;
        END IF;
        IF NOT pg_try_advisory_xact_lock(lock) THEN
            met := 'in-progress';
            EXIT;
        END IF;
    END LOOP;
END
$$;

-- As in 0005_keep, and so.
CREATE OR REPLACE FUNCTION semel.status(
    tenant text,
    operation text,
    key text,
    facet bytea DEFAULT '',
    OUT state text,
    OUT advice text,
    OUT claimed_at timestamptz,
    OUT settled_at timestamptz,
    OUT lease_until timestamptz,
    OUT replay_until timestamptz,
    OUT remember_until timestamptz,
    OUT holder text,
    OUT reason text,
    OUT pointer_kind text,
    OUT pointer_id text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    seen semel.seen;
    now_us bigint;
BEGIN
    PERFORM semel.check_name(tenant, operation, key, facet);
    SELECT s.* INTO seen FROM semel.seen AS s
    WHERE s.tenant = status.tenant AND s.operation = status.operation AND s.key = status.key
        AND s.facet = status.facet;
    now_us := semel.now_us();
    state := CASE
        WHEN seen.state IS NULL THEN 'not-recorded'
        WHEN seen.state IN ('running', 'unknown') THEN seen.state
        WHEN now_us >= seen.remember_until_us THEN 'not-recorded'
        WHEN seen.state <> 'open' AND (seen.outcome IS NULL OR now_us >= seen.replay_until_us)
            THEN 'forgotten'
        ELSE seen.state
    END;
    advice := CASE state
        WHEN 'not-recorded' THEN 'not recorded, may be running; retry with the same key'
        WHEN 'running' THEN 'a holder works on it; wait and retry with the same key'
        WHEN 'open' THEN 'no run had an effect; retry with the same key'
        WHEN 'unknown' THEN 'nobody can say whether it happened; do not use a new key'
        WHEN 'forgotten' THEN 'it was finished, and its outcome is no longer kept'
        ELSE 'it is finished; retry with the same key to get its outcome'
    END;
    IF state <> 'not-recorded' THEN
        claimed_at := semel.instant(seen.claimed_at_us);
        settled_at := semel.instant(seen.settled_at_us);
        lease_until := CASE
            WHEN state = 'running' THEN semel.lease_end(seen.renewed_at_us, seen.lease_us)
        END;
        replay_until := CASE
            WHEN seen.state IN ('done', 'failed') THEN semel.instant(seen.replay_until_us)
        END;
        remember_until := semel.instant(seen.remember_until_us);
        holder := seen.claimed_by;
        reason := seen.reason;
        pointer_kind := seen.pointer_kind;
        pointer_id := seen.pointer_id;
    END IF;
END
$$;

-- As in 0005_keep, and so.
CREATE OR REPLACE VIEW semel.intent AS
SELECT
    s.tenant, s.operation, s.key, nullif(encode(s.facet, 'hex'), '') AS facet,
    CASE
        WHEN s.state IN ('running', 'unknown') THEN s.state
        WHEN s.remember_until_us <= n.now_us THEN 'over'
        WHEN s.state <> 'open' AND (s.outcome IS NULL OR s.replay_until_us <= n.now_us)
            THEN 'forgotten'
        ELSE s.state
    END AS state,
    get_byte(s.outcome, 5) * 256 + get_byte(s.outcome, 6) AS status,
    octet_length(s.outcome) AS outcome_bytes,
    s.pointer_kind, s.pointer_id, s.claimed_by, s.reason, s.fence, s.incarnation, s.takeovers,
    t.created_at, t.claimed_at, t.settled_at, t.lease_until, t.replay_until, t.remember_until
FROM semel.seen AS s
CROSS JOIN LATERAL (SELECT semel.now_us() AS now_us) AS n
CROSS JOIN LATERAL (
    SELECT
        semel.instant(s.created_at_us) AS created_at,
        semel.instant(s.claimed_at_us) AS claimed_at,
        semel.instant(s.settled_at_us) AS settled_at,
        CASE
            WHEN s.state = 'running' THEN semel.lease_end(s.renewed_at_us, s.lease_us)
        END AS lease_until,
        CASE
            WHEN s.state IN ('done', 'failed') THEN semel.instant(s.replay_until_us)
        END AS replay_until,
        semel.instant(s.remember_until_us) AS remember_until
) AS t;

-- As in 0003_claim: and whoever took over may have given the intent back without having asked, so the
-- next one asks.
CREATE OR REPLACE FUNCTION semel.claim(
    tenant text,
    operation text,
    key text,
    content bytea,
    claimed_by text DEFAULT NULL,
    compare text DEFAULT 'strict',
    on_lost text DEFAULT 'hold',
    reference text DEFAULT NULL,
    idle_timeout interval DEFAULT '60 seconds',
    in_savepoint boolean DEFAULT false,
    facet bytea DEFAULT '',
    OUT decision text,
    OUT permit text,
    OUT fence bigint,
    OUT incarnation bigint,
    OUT takeovers bigint,
    OUT ask_first boolean,
    OUT state text,
    OUT status integer,
    OUT headers jsonb,
    OUT body bytea,
    OUT body_kept boolean,
    OUT pointer_kind text,
    OUT pointer_id text,
    OUT holder text,
    OUT claimed_at timestamptz,
    OUT settled_at timestamptz,
    OUT retry_after integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    looked record;
    granted record;
    kept record;
    done boolean;
    said text;
    seen semel.seen;
    asked_digest bytea;
    lock bigint;
    now_us bigint;
BEGIN
    done := semel.check_claim(
        tenant, operation, key, facet, content, claimed_by, compare, on_lost, reference
    );
    IF in_savepoint IS NULL THEN
        RAISE EXCEPTION 'semel: in_savepoint is missing'
            USING ERRCODE = 'SM007', HINT = 'leave it out, or pass true or false';
    END IF;
    asked_digest := semel.digest(content);
    lock := semel.lock_hash(tenant, operation, key, facet);
    looked := semel.look(tenant, operation, key, facet, asked_digest, compare, on_lost, lock);
    seen := looked.seen;
    decision := looked.met;
    now_us := looked.now_us;
    IF decision IN ('fresh', 'reopened', 'rerun', 'reconcile') AND reference IS NOT NULL THEN
        SELECT r.* INTO decision, pointer_kind, pointer_id, settled_at
        FROM semel.refer(tenant, operation, reference, decision) AS r;
    END IF;
    IF decision IN ('fresh', 'reopened', 'rerun', 'reconcile') THEN
        granted := semel.grant_claim(
            tenant, operation, key, facet, seen, decision, asked_digest, claimed_by, in_savepoint,
            now_us
        );
        permit := granted.permit;
        fence := granted.fence;
        incarnation := granted.incarnation;
        takeovers := granted.takeovers;
        said := semel.mark(
            ' ' || lock || ':' || split_part(permit, '.', 6)
            || coalesce(':' || encode(convert_to(reference, 'UTF8'), 'hex'), '')
        );
        said := semel.bound_idle(idle_timeout);
        ask_first := decision = 'reconcile' OR (decision = 'reopened' AND on_lost = 'reconcile');
        claimed_at := semel.instant(now_us);
        decision := 'run';
        RETURN;
    END IF;
    IF decision = 'held' THEN
        RAISE EXCEPTION 'semel: this transaction already holds the key of %', operation
            USING ERRCODE = 'SM008', HINT = 'claim a key once in a transaction';
    ELSIF decision = 'lose' THEN
        PERFORM semel.lose(seen, now_us);
        decision := 'unknown';
        seen.state := 'unknown';
    ELSIF decision = 'rewind' THEN
        PERFORM semel.write_lease(seen.token, seen.fence, now_us, seen.lease_us);
        decision := 'in-progress';
    ELSIF decision = 'replay' THEN
        kept := semel.read_outcome(seen.outcome);
        status := kept.status;
        headers := kept.headers;
        body := kept.body;
        body_kept := kept.body_kept;
    END IF;
    IF decision = 'in-progress' THEN
        retry_after := 1;
    END IF;
    IF decision = 'in-progress' AND seen.state = 'running' THEN
        retry_after := greatest(1, least(
            2147483647,
            ceil(least(seen.lease_us, seen.renewed_at_us::numeric + seen.lease_us - now_us) / 1000000)
        ));
    END IF;
    IF decision IN ('replay', 'forgotten', 'unknown')
        OR decision = 'in-progress' AND seen.state = 'running'
    THEN
        state := seen.state;
        holder := seen.claimed_by;
        claimed_at := semel.instant(seen.claimed_at_us);
        settled_at := semel.instant(seen.settled_at_us);
        pointer_kind := seen.pointer_kind;
        pointer_id := seen.pointer_id;
    END IF;
END
$$;
