-- What a permit may still do, from any driver: complete, fail, release, renew. A permit that has ended
-- raises, so that the caller's transaction cannot commit: a number or a truth could be overlooked.

-- Who holds what: reads a permit, proves that it still counts, and leaves the lock of the name held. A
-- claim of this transaction is known by its mark. Any other is one with a lease, which a gateway
-- claimed before: for those the lock is tried. `mine`: this transaction has written the record.
CREATE FUNCTION semel.held(
    permit text, tenant text, operation text,
    OUT key text, OUT facet bytea, OUT token bytea, OUT fence bigint, OUT mark text, OUT mine boolean,
    OUT reference text, OUT state text, OUT leased boolean, OUT lost boolean
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    named record;
    checked boolean;
    lock bigint;
    marks text := coalesce(current_setting('semel_claim.marks', true), '');
BEGIN
    -- Whoever is told that it has ended must find it so, also after a crash.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM semel.commits_durably();
    END IF;
    checked := semel.check_name(tenant, operation, 'k', '');
    named := semel.read_permit(permit, tenant, operation);
    key := named.key;
    facet := named.facet;
    token := named.token;
    fence := named.fence;
    -- Whoever has its mark has the lock too: both go with a rollback to a savepoint before the claim.
    mark := ':' || encode(token, 'hex');
    mine := strpos(marks, mark) > 0;
    IF NOT mine THEN
        lock := semel.lock_hash(tenant, operation, key, facet);
        mark := ' ' || lock || mark;
        IF NOT pg_try_advisory_xact_lock(lock) THEN
            -- What was claimed with a lease can be seen. What cannot was claimed by that transaction.
            PERFORM FROM semel.record AS r
            WHERE r.tenant = held.tenant AND r.operation = held.operation AND r.key = held.key
                AND r.facet = held.facet;
            IF FOUND THEN
                RAISE EXCEPTION 'semel: another transaction is at work on this intent'
                    USING ERRCODE = '55P03', HINT = 'roll back, wait a moment and try again';
            END IF;
            lost := true;
        END IF;
    ELSIF strpos(marks, mark || ':') > 0 THEN
        -- The entry of a claim that named a reference has it as its third part.
        reference := split_part(split_part(substr(marks, strpos(marks, mark)), ' ', 1), ':', 3);
        reference := convert_from(decode(reference, 'hex'), 'UTF8');
    END IF;
    IF lost IS NULL THEN
        SELECT r.state, r.lease_us IS NOT NULL, r.token <> held.token OR r.fence <> held.fence
            OR r.resolved_by IS NOT NULL
        INTO state, leased, lost
        FROM semel.record AS r
        WHERE r.tenant = held.tenant AND r.operation = held.operation AND r.key = held.key
            AND r.facet = held.facet;
    END IF;
    IF state IS NULL OR NOT lost AND NOT mine AND NOT leased AND state = 'running' THEN
        RAISE EXCEPTION 'semel: this transaction has not claimed %', operation
            USING ERRCODE = 'SM005',
                HINT = 'claim and complete in one transaction, not in autocommit, and not after a '
                    'rollback to a savepoint before the claim';
    END IF;
    IF lost THEN
        PERFORM semel.stale(operation);
    END IF;
END
$$;

-- The permit has ended: somebody else was granted the intent, or it was given back or resolved.
CREATE FUNCTION semel.stale(operation text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'semel: the permit for % has ended', operation
        USING ERRCODE = 'SM001', HINT = 'roll back; somebody else decides what becomes of this intent';
END
$$;

-- Stores the end of a run, as decide::complete says.
CREATE FUNCTION semel.finish(
    permit text, tenant text, operation text, new_state text, outcome bytea, pointer_kind text,
    pointer_id text, replay_for interval, remember_for interval, reference_for interval
) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    held record;
    said text;
    now_us bigint;
    replay_until bigint;
    remember_until bigint;
BEGIN
    held := semel.held(permit, tenant, operation);
    IF reference_for IS NOT NULL AND held.reference IS NULL THEN
        RAISE EXCEPTION 'semel: reference_for is given and the claim named no reference'
            USING ERRCODE = 'SM007', HINT = 'name the reference in the claim of this transaction';
    END IF;
    IF held.state IN ('done', 'failed') AND held.mine THEN
        RETURN 'already';
    ELSIF held.state IN ('done', 'failed') THEN
        -- Whatever this transaction did would be a second effect.
        RAISE EXCEPTION 'semel: another transaction has finished % by this permit', operation
            USING ERRCODE = 'SM009', HINT = 'roll back; claim again to get the outcome that is kept';
    ELSIF held.state NOT IN ('running', 'unknown') THEN
        PERFORM semel.stale(operation);
    END IF;
    now_us := semel.now_us();
    replay_until := now_us + semel.span_us(replay_for, 'replay_for');
    remember_until :=
        greatest(replay_until, now_us + semel.span_us(remember_for, 'remember_for'));
    UPDATE semel.record AS r
    SET state = new_state, settled_at_us = now_us, reason = NULL, outcome = finish.outcome,
        pointer_kind = finish.pointer_kind, pointer_id = finish.pointer_id,
        replay_until_us = replay_until, remember_until_us = remember_until,
        sweep_at_us = replay_until
    WHERE r.tenant = finish.tenant AND r.operation = finish.operation AND r.key = held.key
        AND r.facet = held.facet AND r.token = held.token AND r.fence = held.fence
        AND r.state = held.state AND r.resolved_by IS NULL;
    IF NOT FOUND THEN
        PERFORM semel.lost_race();
    END IF;
    IF NOT held.mine THEN
        said := semel.mark(held.mark);
    ELSIF new_state = 'done' AND held.reference IS NOT NULL THEN
        PERFORM semel.use_reference(
            tenant, operation, held.reference, held.key, held.facet, pointer_kind, pointer_id, now_us,
            now_us + CASE
                WHEN reference_for IS NOT NULL THEN semel.span_us(reference_for, 'reference_for')
            END
        );
    END IF;
    RETURN 'stored';
END
$$;

-- Keeps what a business reference was used for. One whose time is over may be used again.
CREATE FUNCTION semel.use_reference(
    tenant text, operation text, reference text, key text, facet bytea, pointer_kind text,
    pointer_id text, now_us bigint, until_us bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    INSERT INTO semel.reference AS r (
        tenant, operation, reference, key, facet, pointer_kind, pointer_id, created_at_us, until_us
    ) VALUES (
        tenant, operation, reference, key, facet, pointer_kind, pointer_id, now_us, until_us
    ) ON CONFLICT ON CONSTRAINT reference_pkey DO UPDATE
    SET key = excluded.key, facet = excluded.facet, pointer_kind = excluded.pointer_kind,
        pointer_id = excluded.pointer_id, created_at_us = excluded.created_at_us,
        until_us = excluded.until_us
    WHERE r.until_us <= now_us;
    IF NOT FOUND THEN
        PERFORM semel.lost_race();
    END IF;
END
$$;

-- Says that the operation ended in success, and keeps what a retry gets. Returns 'stored', or 'already'
-- if this transaction said so before. A body that is missing is an empty one.
CREATE FUNCTION semel.complete(
    permit text,
    tenant text,
    operation text,
    status integer,
    headers jsonb DEFAULT '[]',
    body bytea DEFAULT '',
    pointer_kind text DEFAULT NULL,
    pointer_id text DEFAULT NULL,
    replay_for interval DEFAULT '24 hours',
    remember_for interval DEFAULT '30 days',
    reference_for interval DEFAULT NULL,
    body_kept boolean DEFAULT true
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
BEGIN
    RETURN semel.finish(
        permit, tenant, operation, 'done',
        semel.write_outcome(
            status, headers, body, body_kept, pointer_kind, pointer_id
        ),
        pointer_kind, pointer_id, replay_for, remember_for, reference_for
    );
END
$$;

-- Says that the operation ended in a final failure, which is an outcome too: a retry gets it. For a
-- failure that a retry may pass, roll back instead.
CREATE FUNCTION semel.fail(
    permit text,
    tenant text,
    operation text,
    status integer,
    headers jsonb DEFAULT '[]',
    body bytea DEFAULT '',
    pointer_kind text DEFAULT NULL,
    pointer_id text DEFAULT NULL,
    replay_for interval DEFAULT '24 hours',
    remember_for interval DEFAULT '30 days',
    body_kept boolean DEFAULT true
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
BEGIN
    RETURN semel.finish(
        permit, tenant, operation, 'failed',
        semel.write_outcome(
            status, headers, body, body_kept, pointer_kind, pointer_id
        ),
        pointer_kind, pointer_id, replay_for, remember_for, NULL
    );
END
$$;

-- Says that no run had an effect: the next claim is granted, with other content too unless `compare` is
-- set or a lost holder was replaced. Returns 'stored', or 'already' if it was released before.
CREATE FUNCTION semel.release(
    permit text,
    tenant text,
    operation text,
    reason text DEFAULT NULL,
    compare boolean DEFAULT false,
    remember_for interval DEFAULT '30 days'
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    held record;
    now_us bigint;
BEGIN
    IF reason IS NOT NULL THEN
        PERFORM semel.check_text(reason, 'reason', 255, '', 'it is a short stable code');
    END IF;
    held := semel.held(permit, tenant, operation);
    IF held.state = 'open' THEN
        RETURN 'already';
    ELSIF held.state NOT IN ('running', 'unknown') THEN
        PERFORM semel.stale(operation);
    END IF;
    now_us := semel.now_us();
    UPDATE semel.record AS r
    SET state = 'open', settled_at_us = now_us, reason = release.reason,
        compare = r.compare OR coalesce(release.compare, true) OR r.takeovers > 0,
        remember_until_us = now_us + semel.span_us(remember_for, 'remember_for'),
        sweep_at_us = now_us + semel.span_us(remember_for, 'remember_for')
    WHERE r.tenant = release.tenant AND r.operation = release.operation AND r.key = held.key
        AND r.facet = held.facet AND r.token = held.token AND r.fence = held.fence
        AND r.state = held.state AND r.resolved_by IS NULL;
    IF NOT FOUND THEN
        PERFORM semel.lost_race();
    END IF;
    -- The intent may be claimed anew, by this transaction too.
    PERFORM set_config(
        'semel_claim.marks',
        regexp_replace(
            coalesce(current_setting('semel_claim.marks', true), ''),
            ' -?[0-9]+:' || encode(held.token, 'hex') || '[^ ]*', ''
        ),
        true
    );
    RETURN 'stored';
END
$$;

-- Renews the lease of a permit, in a transaction of its own. Returns 'renewed', or 'busy' if another
-- transaction is at work on the intent: the lease runs on as it was, try again before it ends.
CREATE FUNCTION semel.renew(
    permit text, tenant text, operation text, lease interval DEFAULT '30 seconds'
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    named record;
    lease_us bigint := semel.span_us(lease, 'lease');
    held boolean;
BEGIN
    PERFORM semel.check_name(tenant, operation, 'k', '');
    SELECT p.* INTO named FROM semel.read_permit(permit, tenant, operation) AS p;
    IF NOT pg_try_advisory_xact_lock(
        semel.lock_hash(tenant, operation, named.key, named.facet)
    ) THEN
        RETURN 'busy';
    END IF;
    SELECT r.lease_us IS NOT NULL INTO held
    FROM semel.record AS r
    WHERE r.tenant = renew.tenant AND r.operation = renew.operation AND r.key = named.key
        AND r.facet = named.facet AND r.token = named.token AND r.fence = named.fence
        AND r.state = 'running';
    IF held IS NULL THEN
        PERFORM semel.stale(operation);
    ELSIF NOT held THEN
        RAISE EXCEPTION 'semel: a claim inside a transaction has no lease to renew'
            USING ERRCODE = 'SM007', HINT = 'the transaction is the lease; it ends with it';
    END IF;
    PERFORM semel.write_lease(named.token, named.fence, semel.now_us(), lease_us);
    RETURN 'renewed';
END
$$;
