-- Claims many names in one statement, each at most once: reads the committed record of each, and
-- writes one for each that has none, if the lock of its name is free. A row whose lock was free and
-- that was not inserted lost a race, came too late, or met a schema that does not bear this version.
--
-- Nobody waits here: whoever writes a name holds its lock until the end, so that an insert meets no
-- open transaction. The time is read row by row, after the lock.
-- $1 tenants, $2 operations, $3 keys, $4 facets (empty: none), $5 locks, $6 tokens, $7 plans,
-- $8 digests, $9 leases, $10 not after, $11 claimed by, $12 the schema of this version
WITH asked AS MATERIALIZED (
    SELECT a.*
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bytea[], $7::bytea[],
        $8::bytea[], $9::bigint[], $10::bigint[], $11::text[]
    ) WITH ORDINALITY AS a (
        tenant, operation, key, facet, lock, token, plan, digest, lease_us, not_after_us, claimed_by, nr
    )
), seen AS MATERIALIZED (
    SELECT a.nr, s.*, semel.now_us() AS now_us
    FROM asked AS a
    CROSS JOIN LATERAL (
        SELECT *
        FROM semel.seen AS r
        WHERE r.tenant = a.tenant AND r.operation = a.operation AND r.key = a.key
            AND r.facet = a.facet
        LIMIT 1
    ) AS s
), locked AS MATERIALIZED (
    SELECT a.*, pg_try_advisory_xact_lock(a.lock) AS is_locked
    FROM asked AS a
    WHERE NOT EXISTS (SELECT FROM seen AS s WHERE s.nr = a.nr) AND semel.commits_durably()
), timed AS MATERIALIZED (
    SELECT l.*, semel.now_us() AS now_us FROM locked AS l
), inserted AS (
    INSERT INTO semel.record (
        tenant, operation, key, facet, state, token, fence, plan, digest, renewed_at_us, lease_us,
        created_at_us, claimed_at_us, claimed_by, replay_until_us, remember_until_us
    )
    SELECT
        t.tenant, t.operation, t.key, t.facet, 'running', t.token, greatest(m.floor + 1, t.now_us),
        t.plan, t.digest, t.now_us, t.lease_us, t.now_us, t.now_us, t.claimed_by,
        9223372036854775807, 9223372036854775807
    FROM timed AS t
    CROSS JOIN semel.meta AS m
    WHERE t.is_locked AND t.now_us <= t.not_after_us AND m.oldest <= $12
    ON CONFLICT DO NOTHING
    RETURNING tenant, operation, key, facet, fence
)
SELECT
    a.nr, coalesce(s.now_us, t.now_us), t.is_locked, i.fence,
    s.state, s.token, s.fence, s.plan, s.digest, s.renewed_at_us, s.lease_us, s.takeovers, s.compare,
    s.incarnation, s.created_at_us, s.claimed_at_us, s.settled_at_us, s.claimed_by, s.reason,
    s.resolved_by, s.pointer_kind, s.pointer_id, s.replay_until_us, s.remember_until_us, s.outcome
FROM asked AS a
LEFT JOIN seen AS s ON s.nr = a.nr
LEFT JOIN timed AS t ON t.nr = a.nr
LEFT JOIN inserted AS i
    ON i.tenant = a.tenant AND i.operation = a.operation AND i.key = a.key AND i.facet = a.facet;
