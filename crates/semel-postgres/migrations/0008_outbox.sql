-- Events that leave if and only if their transaction committed: the table they are appended to, how far
-- each destination has it, and what is parked. docs/internals/postgres.md says why it is so.

-- Cache 1: with more, a session would draw small positions long after others drew large ones.
CREATE SEQUENCE semel.outbox_pos CACHE 1;

-- Which cluster the transaction ids in the table belong to. Rows up to base_pos came with a dump from
-- another one, whose ids mean nothing here; the generation counts how often that happened.
CREATE TABLE semel.outbox_home (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    generation integer NOT NULL,
    system_id bigint NOT NULL,
    base_pos bigint NOT NULL
);

INSERT INTO semel.outbox_home (generation, system_id, base_pos)
SELECT 1, c.system_identifier, 0 FROM pg_control_system() AS c;

-- The name of an event that was given none: a UUID of version 7.
CREATE FUNCTION semel.event_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT encode(set_bit(set_bit(overlay(
        uuid_send(gen_random_uuid())
        PLACING substr(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 3)
        FROM 1 FOR 6
    ), 52, 1), 53, 1), 'hex')::uuid
$$;

-- What was appended. Columns get their defaults in this order, and the order is a promise: whoever has
-- a position has a transaction id already, so that behind a position drawn before a snapshot lies all
-- that the snapshot cannot know. The names are those of Debezium's outbox event router. Without CHECK
-- constraints, which cost an insert more than they guard: what reads the table bears any row.
CREATE TABLE semel.outbox (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    pos bigint NOT NULL DEFAULT nextval('semel.outbox_pos'),
    id uuid NOT NULL DEFAULT semel.event_id(),
    aggregatetype text COLLATE "C" NOT NULL,
    aggregateid text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    payload bytea, -- NULL: a tombstone
    headers jsonb, -- an object, or an array of [name, value]
    aggregate_version bigint,
    trace text COLLATE "C",
    cause text COLLATE "C",
    tenant text COLLATE "C", -- of the intent, as the next three
    operation text COLLATE "C",
    key text COLLATE "C",
    facet bytea,
    at_us bigint NOT NULL DEFAULT semel.now_us(),
    PRIMARY KEY (pos)
) PARTITION BY RANGE (pos);

-- For what a transaction appended that was open for long, and for retention.
CREATE INDEX outbox_xid ON semel.outbox (xid, pos);

-- For the way from an intent to its events.
CREATE INDEX outbox_key ON semel.outbox (key, operation, tenant) WHERE key IS NOT NULL;

-- For operators: events lie in about the order of their times, and of their ids if those are of
-- version 7.
CREATE INDEX outbox_at ON semel.outbox USING brin (at_us, id) WITH (autosummarize = on);

-- The last partition has room for everything, and a bound that it never reaches: retention makes it
-- that bound's partition without reading it, and goes on behind. So no append ever fails for want of a
-- partition, and there is no default one that would have to be searched.
CREATE TABLE semel.outbox_p0 PARTITION OF semel.outbox (
    CONSTRAINT outbox_range CHECK (pos >= 0 AND pos < 1099511627776)
) FOR VALUES FROM (0) TO (MAXVALUE);

-- How far each destination is, and who leads it. Rows are only added, one per change, each with the
-- next number: the primary key is the judge between whoever changes at once, and the last row counts.
-- A row that was updated instead would be a chain of versions for as long as anybody holds a snapshot.
CREATE TABLE semel.outbox_cursor (
    destination text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    owner text NOT NULL,
    renewed_at_us bigint NOT NULL,
    lease_us bigint NOT NULL, -- 0: given up
    generation integer NOT NULL,
    pass bigint NOT NULL,
    is_open boolean NOT NULL,
    settled bigint NOT NULL, -- up to which position of the pass that is open
    from_snapshot pg_snapshot NOT NULL, -- what it shows is settled
    from_pos bigint NOT NULL, -- drawn before that snapshot
    from_next xid8 NOT NULL, -- handed out after that position and before that snapshot
    to_snapshot pg_snapshot, -- of the pass that is open
    to_pos bigint NOT NULL,
    to_next xid8 NOT NULL,
    upto_pos bigint NOT NULL, -- drawn after the last snapshot: behind it that shows nothing
    to_lsn pg_lsn, -- behind all that it shows
    base_pos bigint NOT NULL, -- of semel.outbox_home, in this generation
    -- Until all up to base_pos is settled: how far the destination was in the cluster it came from.
    floor_pos bigint,
    old_from pg_snapshot,
    old_to pg_snapshot,
    old_settled bigint,
    old_upto bigint,
    PRIMARY KEY (destination, seq)
);

-- Lanes that wait, in order, with copies of their events.
CREATE TABLE semel.outbox_parked (
    destination text COLLATE "C" NOT NULL,
    seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    generation integer NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    why text NOT NULL,
    parked_at_us bigint NOT NULL,
    pos bigint NOT NULL,
    id uuid NOT NULL,
    aggregatetype text COLLATE "C" NOT NULL,
    aggregateid text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    payload bytea,
    headers jsonb,
    aggregate_version bigint,
    trace text COLLATE "C",
    cause text COLLATE "C",
    tenant text COLLATE "C",
    operation text COLLATE "C",
    key text COLLATE "C",
    facet bytea,
    at_us bigint NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE (destination, generation, id)
);

CREATE INDEX outbox_parked_lane
ON semel.outbox_parked (destination, aggregatetype, aggregateid, seq) INCLUDE (state);

-- An event as it is read, with bounds: a row that was written past those of semel.publish is told in
-- part, and never larger than an event may be.
CREATE VIEW semel.outbox_read AS
SELECT
    o.pos, o.at_us, uuid_send(o.id) AS event_id, left(o.aggregatetype, 256) AS aggregatetype,
    left(o.aggregateid, 256) AS aggregateid, left(o.type, 256) AS type,
    CASE WHEN octet_length(o.payload) <= 1048576 THEN o.payload END AS payload,
    octet_length(o.payload)::bigint AS payload_bytes,
    CASE WHEN octet_length(o.headers::text) <= 2097152 THEN o.headers::text
        ELSE left(o.headers::text, 1) END AS headers,
    o.aggregate_version, left(o.trace, 513) AS trace, left(o.cause, 801) AS cause,
    left(o.tenant, 256) AS tenant, left(o.operation, 129) AS operation, left(o.key, 256) AS key,
    substr(o.facet, 1, 33) AS facet, o.id, o.xid
FROM semel.outbox AS o;

-- The same of what is parked.
CREATE VIEW semel.outbox_parked_read AS
SELECT
    p.pos, p.at_us, uuid_send(p.id) AS event_id, left(p.aggregatetype, 256) AS aggregatetype,
    left(p.aggregateid, 256) AS aggregateid, left(p.type, 256) AS type,
    CASE WHEN octet_length(p.payload) <= 1048576 THEN p.payload END AS payload,
    octet_length(p.payload)::bigint AS payload_bytes,
    CASE WHEN octet_length(p.headers::text) <= 2097152 THEN p.headers::text
        ELSE left(p.headers::text, 1) END AS headers,
    p.aggregate_version, left(p.trace, 513) AS trace, left(p.cause, 801) AS cause,
    left(p.tenant, 256) AS tenant, left(p.operation, 129) AS operation, left(p.key, 256) AS key,
    substr(p.facet, 1, 33) AS facet, p.seq, p.destination, p.state, p.attempts, p.why,
    p.parked_at_us, p.id
FROM semel.outbox_parked AS p;

-- What operators said to destinations.
CREATE TABLE semel.outbox_audit (
    row_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    destination text COLLATE "C" NOT NULL,
    at_us bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    event uuid,
    rows bigint NOT NULL,
    actor text NOT NULL,
    note text NOT NULL
);

-- Says whether headers are within the bounds of an event: an object whose values are plain, or an array
-- of pairs.
CREATE FUNCTION semel.are_headers(headers jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    pairs jsonb := headers;
BEGIN
    IF jsonb_typeof(headers) = 'object' THEN
        SELECT jsonb_agg(jsonb_build_array(h.key, h.value)) INTO pairs FROM jsonb_each(headers) AS h;
    ELSIF jsonb_typeof(headers) <> 'array' THEN
        RETURN false;
    END IF;
    RETURN pairs IS NULL OR jsonb_array_length(pairs) <= 64 AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(pairs) AS p (pair)
        WHERE (
            jsonb_typeof(p.pair) = 'array' AND jsonb_array_length(p.pair) = 2
            AND jsonb_typeof(p.pair -> 0) = 'string'
            AND jsonb_typeof(p.pair -> 1) IN ('string', 'number', 'boolean')
            AND octet_length(convert_to(p.pair ->> 0, 'UTF8')) BETWEEN 1 AND 128
            AND octet_length(convert_to(p.pair ->> 1, 'UTF8')) <= 4096
            AND ((p.pair ->> 0) || (p.pair ->> 1)) COLLATE "C" !~ '[\u0001-\u001f\u007f-\u009f]'
        ) IS NOT TRUE
    );
END
$$;

-- Refuses an event that breaks a bound.
CREATE FUNCTION semel.check_event(
    aggregatetype text, aggregateid text, type text, payload bytea, headers jsonb, trace text,
    cause text
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    plain text := '^[^\u0001-\u001f\u007f-\u009f]+$';
    checked boolean;
BEGIN
    -- All in one look; only a refusal looks at each.
    IF octet_length(convert_to(aggregatetype, 'UTF8')) BETWEEN 1 AND 255
        AND octet_length(convert_to(aggregateid, 'UTF8')) BETWEEN 1 AND 255
        AND octet_length(convert_to(type, 'UTF8')) BETWEEN 1 AND 255
        AND (aggregatetype || aggregateid || type) COLLATE "C" !~ '[\u0001-\u001f\u007f-\u009f]'
        AND coalesce(octet_length(payload), 0) <= 1048576
        AND headers IS NULL AND trace IS NULL AND cause IS NULL
    THEN
        RETURN true;
    END IF;
    checked := semel.check_text(aggregatetype, 'aggregatetype', 255, plain, 'name the kind of aggregate')
        AND semel.check_text(aggregateid, 'aggregateid', 255, plain, 'name the aggregate')
        AND semel.check_text(type, 'type', 255, plain, 'say what happened, such as OrderPlaced');
    IF octet_length(payload) > 1048576 THEN
        RAISE EXCEPTION 'semel: the payload has more than 1048576 bytes'
            USING ERRCODE = 'SM007', HINT = 'keep what is large elsewhere, and tell where';
    END IF;
    IF headers IS NOT NULL AND NOT semel.are_headers(headers) THEN
        RAISE EXCEPTION 'semel: headers are not at most 64 pairs of a name and a value'
            USING ERRCODE = 'SM007',
                HINT = 'pass a JSON object of strings; a name has 1 to 128 bytes, a value at most 4096, '
                    'neither a control character';
    END IF;
    RETURN (trace IS NULL OR semel.check_text(trace, 'trace', 512, plain, 'pass a traceparent'))
        AND (cause IS NULL OR semel.check_text(
            cause, 'cause', 800, plain, 'pass what made it be, such as event:ID or request:ID'
        ));
END
$$;

-- Appends an event in the caller's transaction: it leaves if and only if that commits. Lock or write the
-- aggregate first, and its events leave in the order of their causes. With a permit of this transaction
-- the event carries its intent. Returns the name of the event, which is the same in every copy.
CREATE FUNCTION semel.publish(
    aggregatetype text,
    aggregateid text,
    type text,
    payload bytea,
    headers jsonb DEFAULT NULL,
    id uuid DEFAULT NULL,
    aggregate_version bigint DEFAULT NULL,
    trace text DEFAULT NULL,
    cause text DEFAULT NULL,
    permit text DEFAULT NULL,
    tenant text DEFAULT NULL,
    operation text DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    checked boolean;
    held record;
    named uuid := coalesce(id, semel.event_id());
    of_key text;
    of_facet bytea;
BEGIN
    checked := semel.check_event(aggregatetype, aggregateid, type, payload, headers, trace, cause);
    IF permit IS NOT NULL THEN
        held := semel.held(permit, tenant, operation);
        of_key := held.key;
        of_facet := held.facet;
    ELSIF tenant IS NOT NULL OR operation IS NOT NULL THEN
        RAISE EXCEPTION 'semel: tenant and operation are given without a permit'
            USING ERRCODE = 'SM007', HINT = 'pass the permit that claim gave, or none of the three';
    END IF;
    INSERT INTO semel.outbox (
        id, aggregatetype, aggregateid, type, payload, headers, aggregate_version, trace, cause, tenant,
        operation, key, facet
    ) VALUES (
        named, aggregatetype, aggregateid, type, payload, headers, aggregate_version, trace, cause,
        tenant, operation, of_key, of_facet
    );
    RETURN named;
END
$$;

REVOKE ALL ON FUNCTION
    semel.event_id, semel.are_headers, semel.check_event, semel.publish
FROM PUBLIC;
