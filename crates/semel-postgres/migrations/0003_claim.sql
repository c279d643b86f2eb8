-- The atomic form from any driver begins with semel.claim. What applications call runs as the owner of
-- the schema, with settings that no session can change; which roles may call it is said by roles.sql.
-- Nothing here waits for anybody: what is busy is answered as such.

-- Stamps the transaction, so that a completion knows whether it is still the one that claimed: the
-- stamp goes with a commit, and with a rollback to a savepoint before it.
CREATE FUNCTION semel.mark(entry text) RETURNS text
LANGUAGE sql VOLATILE
AS $$
    SELECT set_config(
        'semel_claim.marks', coalesce(current_setting('semel_claim.marks', true), '') || entry, true
    )
$$;

-- Bounds how long a client that vanished inside its transaction keeps what it holds: never above what
-- the caller has set, and not at all if it asks for zero.
CREATE FUNCTION semel.bound_idle(idle_timeout interval) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    current interval := current_setting('idle_in_transaction_session_timeout')::interval;
    asked_us bigint := semel.span_us(idle_timeout, 'idle_timeout');
BEGIN
    IF asked_us > 0 AND (current = interval '0' OR current > idle_timeout) THEN
        RETURN set_config(
            'idle_in_transaction_session_timeout',
            least(greatest(1, asked_us / 1000), 2147483647)::text,
            true
        );
    END IF;
    RETURN current;
END
$$;

-- Refuses a claim that breaks a bound.
CREATE FUNCTION semel.check_claim(
    tenant text, operation text, key text, facet bytea, content bytea, claimed_by text, compare text,
    on_lost text, reference text
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    checked boolean := semel.check_name(tenant, operation, key, facet);
BEGIN
    IF content IS NULL THEN
        RAISE EXCEPTION 'semel: content is missing'
            USING ERRCODE = 'SM007', HINT = 'pass the bytes of what is asked for';
    END IF;
    IF claimed_by IS NOT NULL THEN
        checked := semel.check_text(claimed_by, 'claimed_by', 255, '', 'it is a name for tracing');
    END IF;
    IF reference IS NOT NULL THEN
        checked := semel.check_text(reference, 'reference', 255, '', 'it is a name such as an order number');
    END IF;
    IF compare IS NULL OR compare NOT IN ('strict', 'replay-first') THEN
        RAISE EXCEPTION 'semel: compare is not known'
            USING ERRCODE = 'SM007', HINT = 'pass ''strict'' or ''replay-first''';
    END IF;
    IF on_lost IS NULL OR on_lost NOT IN ('hold', 'reconcile', 'rerun') THEN
        RAISE EXCEPTION 'semel: on_lost is not known'
            USING ERRCODE = 'SM007', HINT = 'pass ''hold'', ''reconcile'' or ''rerun''';
    END IF;
    RETURN checked;
END
$$;

-- Looks a business reference up that a granted claim names, under the lock of the reference until the
-- transaction ends. `met` stays as it is if nobody has used it.
CREATE FUNCTION semel.refer(
    tenant text, operation text, reference text, INOUT met text,
    OUT pointer_kind text, OUT pointer_id text, OUT settled_at timestamptz
)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(semel.lock_hash(tenant, operation, reference, '\x52')) THEN
        met := 'in-progress';
        RETURN;
    END IF;
    SELECT 'reference-exists', r.pointer_kind, r.pointer_id, semel.instant(r.created_at_us)
    INTO met, pointer_kind, pointer_id, settled_at
    FROM semel.reference AS r
    WHERE r.tenant = refer.tenant AND r.operation = refer.operation AND r.reference = refer.reference
        AND (r.until_us IS NULL OR r.until_us > semel.now_us())
    UNION ALL SELECT met, NULL, NULL, NULL
    LIMIT 1;
END
$$;

-- Writes what a granted claim writes, as decide::grant says, with no lease: the transaction is the
-- lease. The primary key is the judge. A plain INSERT would say 23505 where a snapshot is too old to see
-- the row; here that is 40001, which every driver and framework retries.
CREATE FUNCTION semel.grant_claim(
    tenant text, operation text, key text, facet bytea, seen semel.seen, met text, digest bytea,
    claimed_by text, in_savepoint boolean, now_us bigint,
    OUT permit text, OUT fence bigint, OUT incarnation bigint, OUT takeovers bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    new_token bytea := uuid_send(gen_random_uuid());
    anew boolean := met = 'reopened' AND NOT seen.compare
        AND (seen.plan, seen.digest) <> (semel.plan(), digest);
    written xid;
BEGIN
    SELECT greatest(seen.fence + 1, m.floor + 1, now_us) INTO fence FROM semel.meta AS m;
    takeovers := CASE
        WHEN met = 'fresh' OR anew THEN 0
        WHEN met = 'reopened' THEN seen.takeovers
        ELSE seen.takeovers + 1
    END;
    incarnation := CASE WHEN met = 'fresh' THEN 0 ELSE seen.incarnation + anew::integer END;
    IF seen.state IS NULL THEN
        INSERT INTO semel.record AS r (
            tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us,
            created_at_us, claimed_at_us, claimed_by, replay_until_us, remember_until_us
        ) VALUES (
            tenant, operation, key, facet, 'running', new_token, fence, semel.plan(), digest, now_us,
            now_us, now_us, claimed_by, 9223372036854775807, 9223372036854775807
        ) ON CONFLICT DO NOTHING
        RETURNING r.xmin INTO written;
    ELSE
        UPDATE semel.record AS r
        SET state = 'running', token = new_token, fence = grant_claim.fence,
            plan = semel.plan(), digest = grant_claim.digest, renewed_at_us = now_us, lease_us = NULL,
            takeovers = grant_claim.takeovers, compare = met <> 'fresh' AND seen.compare,
            incarnation = grant_claim.incarnation,
            created_at_us = CASE WHEN met = 'fresh' THEN now_us ELSE seen.created_at_us END,
            claimed_at_us = now_us, settled_at_us = NULL, claimed_by = grant_claim.claimed_by,
            reason = NULL, resolved_by = NULL, pointer_kind = NULL, pointer_id = NULL,
            replay_until_us = 9223372036854775807, remember_until_us = 9223372036854775807,
            sweep_at_us = NULL, outcome = NULL
        WHERE r.tenant = grant_claim.tenant AND r.operation = grant_claim.operation
            AND r.key = grant_claim.key AND r.facet = grant_claim.facet
            AND r.token = seen.token AND r.fence = seen.fence AND r.state = seen.state
        RETURNING r.xmin INTO written;
        DELETE FROM semel.lease AS l WHERE l.token = seen.token;
    END IF;
    IF written IS NULL THEN
        PERFORM semel.lost_race();
    END IF;
    -- The row of a claim inside a savepoint was written by another xid than the transaction's.
    IF NOT in_savepoint
        AND written::text::bigint <> (pg_current_xact_id()::text::bigint & 4294967295)
    THEN
        RAISE EXCEPTION 'semel: the claim of % stands inside a savepoint', operation
            USING ERRCODE = 'SM006',
                HINT = 'claim before the first SAVEPOINT; if the driver itself wraps every statement in '
                    'one, pass in_savepoint => true';
    END IF;
    permit := concat_ws(
        '.', '1', encode(convert_to(tenant, 'UTF8'), 'hex'),
        encode(convert_to(operation, 'UTF8'), 'hex'), encode(convert_to(key, 'UTF8'), 'hex'),
        encode(facet, 'hex'), encode(new_token, 'hex'), fence, incarnation
    );
END
$$;

-- Another transaction wrote first, though this one held the lock: its snapshot is older than the lock.
CREATE FUNCTION semel.lost_race() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'semel: another transaction wrote this intent first'
        USING ERRCODE = '40001', HINT = 'roll back and begin a new transaction';
END
$$;

-- Says of a lost holder that nobody knows what it did, as decide::lose does.
CREATE FUNCTION semel.lose(seen semel.seen, now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    UPDATE semel.record AS r
    SET state = 'unknown', settled_at_us = now_us, reason = 'lease-over'
    WHERE r.tenant = seen.tenant AND r.operation = seen.operation AND r.key = seen.key
        AND r.facet = seen.facet AND r.token = seen.token AND r.fence = seen.fence
        AND r.state = 'running';
    IF NOT FOUND THEN
        PERFORM semel.lost_race();
    END IF;
END
$$;

-- Writes a lease as renewed now.
CREATE FUNCTION semel.write_lease(token bytea, fence bigint, now_us bigint, lease_us bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    INSERT INTO semel.lease AS l (token, fence, renewed_at_us, lease_us)
    VALUES (token, fence, now_us, lease_us)
    ON CONFLICT ON CONSTRAINT lease_pkey DO UPDATE
    SET fence = excluded.fence, renewed_at_us = excluded.renewed_at_us, lease_us = excluded.lease_us;
END
$$;

-- Looks at an intent and decides what a claim of it meets. What is final needs no lock: it is answered
-- by the first look. For all else the lock of the name is taken, without waiting for it, and a second
-- look is made by a later snapshot. 'held': by this very transaction.
CREATE FUNCTION semel.look(
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
                seen.renewed_at_us::numeric + seen.lease_us, seen.replay_until_us,
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

-- Claims an intent inside the caller's transaction, and returns one row. `decision` says what to do:
-- 'run': mutate, call complete with `permit`, commit. 'replay': roll back and answer with the outcome.
-- 'in-progress': roll back, give the connection back, try again after `retry_after` seconds. The others
-- refuse: 'mismatch', 'incomparable', 'unknown', 'forgotten', 'reference-exists'.
CREATE FUNCTION semel.claim(
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
        ask_first := decision = 'reconcile';
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
