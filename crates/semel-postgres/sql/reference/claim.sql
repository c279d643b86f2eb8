-- Reads one record inside the caller's transaction and takes the lock of its name, unless the record
-- alone answers; says how that went: busy, finished, held (by this transaction, before) or taken. Only
-- a lock that was taken leaves its mark, by which the completion knows that it is still the same
-- transaction; and bounds how long a client that vanished keeps the lock.
-- What was read may be a moment older than the lock: the statement that writes is the judge.
-- It also looks a business reference up, and takes its lock unless it was used: used, busy or free.
-- $1 tenant, $2 operation, $3 key, $4 facet (empty: none), $5 lock, $6 the lock's mark, $7 token as
-- hexadecimal, $8 milliseconds until an idle transaction ends, $9 reference,
-- $10 the reference's lock
SELECT
    CASE
        WHEN s.state IN ('done', 'failed') AND s.remember_until_us > semel.now_us() THEN 'finished'
        WHEN strpos(coalesce(current_setting('semel_claim.marks', true), ''), $6) > 0 THEN 'held'
        WHEN NOT pg_try_advisory_xact_lock($5) THEN 'busy'
        WHEN
            set_config(
                'semel_claim.marks',
                coalesce(current_setting('semel_claim.marks', true), '') || $6 || $7,
                true
            ) IS NOT NULL
            AND CASE
                WHEN
                    current_setting('idle_in_transaction_session_timeout') = '0'
                    OR current_setting('idle_in_transaction_session_timeout')::interval
                        > $8 * interval '1 millisecond'
                    THEN set_config('idle_in_transaction_session_timeout', $8::text, true) IS NOT NULL
                ELSE true
            END
            THEN 'taken'
    END,
    current_setting('synchronous_commit'),
    m.floor,
    semel.now_us(),
    s.state, s.token, s.fence, s.plan, s.digest, s.renewed_at_us, s.lease_us, s.takeovers, s.compare,
    s.incarnation, s.created_at_us, s.claimed_at_us, s.settled_at_us, s.claimed_by, s.reason,
    s.resolved_by, s.pointer_kind, s.pointer_id, s.replay_until_us, s.remember_until_us, s.outcome,
    CASE
        WHEN f.reference IS NOT NULL THEN 'used'
        WHEN NOT pg_try_advisory_xact_lock($10) THEN 'busy'
        ELSE 'free'
    END,
    f.pointer_kind, f.pointer_id, f.created_at_us
FROM semel.meta AS m
LEFT JOIN semel.seen AS s
    ON s.tenant = $1 AND s.operation = $2 AND s.key = $3 AND s.facet = $4
LEFT JOIN semel.reference AS f
    ON f.tenant = $1 AND f.operation = $2 AND f.reference = $9
        AND (f.until_us IS NULL OR f.until_us > semel.now_us());
