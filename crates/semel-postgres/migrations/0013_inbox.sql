-- What consumers had. A message is remembered in the transaction of its effect; attempts are counted and
-- messages parked beside it.

-- Not partitioned by time: a name must stay unique for as long as it is remembered, whenever its copy
-- comes. Whoever handles messages by the crate writes the final row at once; semel.receive writes
-- `running`, which must not be committed.
CREATE TABLE semel.inbox (
    consumer text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL, -- of the content: the plan, then the digest
    standing text COLLATE "C" NOT NULL, -- done, left-out, parked or running
    received_at_us bigint NOT NULL,
    remember_until_us bigint, -- NULL: for ever, as whatever was once parked
    answer bytea, -- what the run answered
    events uuid[], -- what the run published
    PRIMARY KEY (consumer, source, message_id)
);

-- For the sweep. Nearly always the largest value comes last, which costs an insert the least.
CREATE INDEX inbox_sweep ON semel.inbox (remember_until_us) WHERE remember_until_us IS NOT NULL;

-- How often messages were run that have not come to an end. In rows of their own, since what the
-- transaction of an effect counts is rolled back with it.
CREATE TABLE semel.inbox_attempt (
    consumer text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    first_at_us bigint NOT NULL,
    last_at_us bigint NOT NULL,
    PRIMARY KEY (consumer, source, message_id)
) WITH (fillfactor = 50);

-- Copies of messages that could not be handled.
CREATE TABLE semel.inbox_parked (
    consumer text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL, -- failed, retry or skipped
    attempts bigint NOT NULL,
    why text NOT NULL,
    parked_at_us bigint NOT NULL,
    payload bytea,
    key bytea,
    header_names text[] NOT NULL,
    header_values bytea[] NOT NULL,
    log text COLLATE "C",
    log_offset bigint,
    sent_at_us bigint,
    PRIMARY KEY (consumer, source, message_id)
);

-- For what is to be run again: few rows among many that wait.
CREATE INDEX inbox_parked_due ON semel.inbox_parked (consumer, parked_at_us) WHERE state = 'retry';

-- Up to where consumers have ordered logs. Moved in the transaction of the effect, and only forward.
CREATE TABLE semel.inbox_position (
    consumer text COLLATE "C" NOT NULL,
    log text COLLATE "C" NOT NULL,
    next bigint NOT NULL, -- the first offset that was not handled
    moved_at_us bigint NOT NULL,
    PRIMARY KEY (consumer, log)
) WITH (fillfactor = 10);

-- What operators said, and messages that came with other content than before.
CREATE TABLE semel.inbox_audit (
    row_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at_us bigint NOT NULL,
    kind text NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    actor text NOT NULL,
    note text NOT NULL
);

CREATE INDEX inbox_audit_consumer ON semel.inbox_audit (consumer, row_id);

-- A receipt without its end would be a message that was lost: in autocommit it stands without an effect.
CREATE FUNCTION semel.received_before_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM semel.inbox AS i
    WHERE i.consumer = NEW.consumer AND i.source = NEW.source AND i.message_id = NEW.message_id
        AND i.standing = 'running';
    IF FOUND THEN
        RAISE EXCEPTION 'semel: the transaction received % and did not say that it has handled it',
            NEW.message_id
            USING ERRCODE = 'SM004',
                HINT = 'call received before COMMIT, in the transaction that called receive, not in '
                    'autocommit';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER received_before_commit
AFTER INSERT OR UPDATE ON semel.inbox
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW
WHEN (NEW.standing = 'running')
EXECUTE FUNCTION semel.received_before_commit();

-- Refuses what cannot be the name of a message.
CREATE FUNCTION semel.check_message(consumer text, source text, message_id text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN semel.check_text(
        consumer, 'consumer', 128, '^[A-Za-z0-9._:/-]+$',
        'it has ASCII letters, digits and . _ - : /, such as billing.on-order-placed'
    ) AND semel.check_text(
        source, 'source', 255, '^[^\u0001-\u001f\u007f-\u009f]+$', 'it has no control characters'
    ) AND semel.check_text(
        message_id, 'message_id', 255, '^[^\u0001-\u001f\u007f-\u009f]+$',
        'it has no control characters'
    );
END
$$;

-- Receives a message inside the transaction of its effect. `decision` says what to do: `first`: do the
-- effect, then call semel.received, then commit and acknowledge. Anything else: do nothing, commit or
-- roll back, and acknowledge: a `duplicate` was handled, and what its run recorded comes with it, to be
-- sent again; `parked` and `left-out` are an operator's; a `mismatch` has the id of another message,
-- which somebody should be told of. While another transaction has the same message, it waits for it.
CREATE FUNCTION semel.receive(
    consumer text,
    source text,
    message_id text,
    content bytea,
    remember_for interval DEFAULT '30 days',
    idle_timeout interval DEFAULT '60 seconds',
    OUT decision text,
    OUT answer bytea,
    OUT events uuid[],
    OUT received_at timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    came bytea := semel.plan() || semel.digest(coalesce(content, ''));
    now_us bigint;
    seen record;
    checked boolean;
BEGIN
    checked := semel.check_message(consumer, source, message_id);
    checked := semel.commits_durably();
    now_us := semel.now_us();
    INSERT INTO semel.inbox AS i (
        consumer, source, message_id, fingerprint, standing, received_at_us, remember_until_us
    ) VALUES (
        consumer, source, message_id, came, 'running', now_us,
        now_us + semel.span_us(remember_for, 'remember_for')
    ) ON CONFLICT ON CONSTRAINT inbox_pkey DO NOTHING;
    IF FOUND THEN
        PERFORM semel.bound_idle(idle_timeout);
        decision := 'first';
        received_at := semel.instant(now_us);
        RETURN;
    END IF;
    SELECT i.standing, i.fingerprint, i.answer, i.events, i.received_at_us INTO seen
    FROM semel.inbox AS i
    WHERE i.consumer = receive.consumer AND i.source = receive.source
        AND i.message_id = receive.message_id;
    IF NOT FOUND THEN
        -- It was forgotten since.
        PERFORM semel.lost_race();
    ELSIF seen.standing = 'running' THEN
        RAISE EXCEPTION 'semel: this transaction already receives %', message_id
            USING ERRCODE = 'SM008', HINT = 'receive a message once';
    END IF;
    answer := seen.answer;
    events := seen.events;
    received_at := semel.instant(seen.received_at_us);
    decision := CASE
        WHEN seen.fingerprint <> came AND substr(seen.fingerprint, 1, 8) = semel.plan()
            THEN 'mismatch'
        WHEN seen.standing = 'done' THEN 'duplicate'
        ELSE seen.standing
    END;
    IF decision = 'mismatch' THEN
        INSERT INTO semel.inbox_audit (at_us, kind, consumer, source, message_id, actor, note)
        VALUES (
            now_us, 'mismatch', consumer, source, message_id, '',
            'remembered ' || encode(substr(seen.fingerprint, 9), 'hex') || ', came '
            || encode(substr(came, 9), 'hex')
        );
    END IF;
END
$$;

-- Says that the transaction has handled what it received, and keeps what a copy is answered with.
CREATE FUNCTION semel.received(
    consumer text,
    source text,
    message_id text,
    answer bytea DEFAULT NULL,
    events uuid[] DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
BEGIN
    IF octet_length(answer) > 1048576 OR cardinality(events) > 10000 THEN
        RAISE EXCEPTION 'semel: an answer has more than 1 MiB, or there are more than 10000 events'
            USING ERRCODE = 'SM007', HINT = 'keep the answer elsewhere, and a pointer to it here';
    END IF;
    UPDATE semel.inbox AS i
    SET standing = 'done', answer = received.answer, events = received.events
    WHERE i.consumer = received.consumer AND i.source = received.source
        AND i.message_id = received.message_id AND i.standing = 'running';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'semel: this transaction has not received %', message_id
            USING ERRCODE = 'SM005',
                HINT = 'call receive and received in one transaction, not in autocommit, and not after '
                    'a rollback to a savepoint before the receipt';
    END IF;
END
$$;

-- Counts an attempt of each message of a batch, in an order that no two calls differ in.
CREATE FUNCTION semel.count_attempts(consumer text, sources text[], message_ids text[])
RETURNS TABLE (source text, message_id text, count bigint, first_at_us bigint, now_us bigint)
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO semel.inbox_attempt AS a (
        consumer, source, message_id, count, first_at_us, last_at_us
    )
    SELECT DISTINCT count_attempts.consumer, m.source, m.message_id, 1, t.now_us, t.now_us
    FROM unnest(sources, message_ids) AS m (source, message_id)
    CROSS JOIN (SELECT semel.now_us() AS now_us OFFSET 0) AS t
    ORDER BY m.source, m.message_id
    ON CONFLICT (consumer, source, message_id) DO UPDATE
    SET count = a.count + 1, last_at_us = excluded.last_at_us
    RETURNING a.source, a.message_id, a.count, a.first_at_us, a.last_at_us
$$;
