-- What the functions of the next migrations are made of: bounds, fingerprints, permits, outcomes and the
-- decision, each as the crate semel has it. They run under the settings of the functions that call them.

-- An instant as people read it.
CREATE FUNCTION semel.instant(at_us bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN at_us > 9000000000000000000 THEN 'infinity'::timestamptz
        ELSE to_timestamp(at_us / 1000000.0) -- immutable, so that the function can be inlined
    END
$$;

-- When a lease ends, for people; a lease may be longer than time.
CREATE FUNCTION semel.lease_end(renewed_at_us bigint, lease_us bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT semel.instant(least(renewed_at_us::numeric + lease_us, 9223372036854775807)::bigint)
$$;

-- A span in microseconds. A month counts 30 days, as everywhere in PostgreSQL.
CREATE FUNCTION semel.span_us(span interval, what text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF span IS NULL OR span < interval '0' OR span > interval '1000 years' THEN
        RAISE EXCEPTION 'semel: % is not a span from nothing to 1000 years', what
            USING ERRCODE = 'SM007', HINT = 'pass an interval such as ''24 hours''';
    END IF;
    RETURN (extract(epoch FROM span) * 1000000)::bigint;
END
$$;

-- Refuses a text that is missing or too long, or that has characters other than `pattern` says. Like
-- every function here that only does something it returns true: PL/pgSQL evaluates an assignment by
-- itself, and would run a PERFORM or a SELECT as a query, at ten times the price.
CREATE FUNCTION semel.check_text(
    value text, what text, bytes_max integer, pattern text, hint text
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF value IS NULL OR octet_length(convert_to(value, 'UTF8')) NOT BETWEEN 1 AND bytes_max
        OR value COLLATE "C" !~ pattern
    THEN
        RAISE EXCEPTION 'semel: % is not 1 to % bytes of the characters that it may have',
            what, bytes_max USING ERRCODE = 'SM007', HINT = hint;
    END IF;
    RETURN true;
END
$$;

-- Refuses what cannot be the name of an intent.
CREATE FUNCTION semel.check_name(tenant text, operation text, key text, facet bytea)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    -- All in one look, since this is asked for every call; only a refusal looks at each.
    IF octet_length(convert_to(tenant, 'UTF8')) BETWEEN 1 AND 255
        AND octet_length(operation) BETWEEN 1 AND 128 AND octet_length(key) BETWEEN 1 AND 255
        AND octet_length(facet) IN (0, 32)
        AND tenant COLLATE "C" !~ '[\u0001-\u001f\u007f-\u009f]'
        AND operation COLLATE "C" !~ '[^A-Za-z0-9._:/-]' AND key COLLATE "C" !~ '[^!-~]'
    THEN
        RETURN true;
    END IF;
    IF facet IS NULL OR octet_length(facet) NOT IN (0, 32) THEN
        RAISE EXCEPTION 'semel: facet is neither empty nor a digest of 32 bytes'
            USING ERRCODE = 'SM007', HINT = 'leave it out, or pass a sha256';
    END IF;
    RETURN semel.check_text(
        tenant, 'tenant', 255, '^[^\u0001-\u001f\u007f-\u009f]+$', 'it has no control characters'
    ) AND semel.check_text(
        operation, 'operation', 128, '^[A-Za-z0-9._:/-]+$',
        'it has ASCII letters, digits and . _ - : /, such as payments.create'
    ) AND semel.check_text(key, 'key', 255, '^[!-~]+$', 'it has visible ASCII characters');
END
$$;

-- The plan by which the functions fingerprint: the default one, of any bytes.
CREATE FUNCTION semel.plan() RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT '\xdefaff6ffe090a14'::bytea $$;

-- The digest of what is asked, under that plan.
CREATE FUNCTION semel.digest(content bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT sha256(
        '\x73656d656c2f66696e6765727072696e742f76616c756500'::bytea -- semel/fingerprint/value
        || semel.plan() || '\x52'::bytea || int8send(octet_length(content)) || content
    )
$$;

-- The name and the proof that a permit holds. The parts are hexadecimal, and one permit has one text.
CREATE FUNCTION semel.read_permit(
    permit text, tenant text, operation text,
    OUT key text, OUT facet bytea, OUT token bytea, OUT fence bigint
)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    parts text[] := string_to_array(permit, '.');
BEGIN
    -- Byte by byte: what is no ASCII stays an escape here, and then differs below.
    IF octet_length(permit) < 2048 AND cardinality(parts) = 8 AND parts[4] ~ '^[0-9a-f]+$'
        AND octet_length(parts[4]) % 2 = 0
    THEN
        key := replace(encode(decode(parts[4], 'hex'), 'escape'), '\\', '\');
    END IF;
    IF key IS NULL OR parts[1] <> '1' OR encode(convert_to(key, 'UTF8'), 'hex') <> parts[4]
        OR octet_length(key) > 255 OR key COLLATE "C" !~ '^[!-~]+$'
        OR octet_length(parts[5]) NOT IN (0, 64) OR octet_length(parts[6]) <> 32
        OR parts[5] || parts[6] !~ '^[0-9a-f]+$'
        OR parts[2] !~ '^[0-9a-f]+$' OR parts[3] !~ '^[0-9a-f]+$'
        OR parts[7] !~ '^(0|[1-9][0-9]*)$' OR octet_length(parts[7]) > 19
        OR octet_length(parts[7]) = 19 AND parts[7] COLLATE "C" > '9223372036854775807'
        OR parts[8] !~ '^(0|[1-9][0-9]*)$' OR octet_length(parts[8]) > 10
    THEN
        RAISE EXCEPTION 'semel: the text is not a permit'
            USING ERRCODE = 'SM002', HINT = 'pass the permit exactly as it was given';
    END IF;
    IF parts[2] IS DISTINCT FROM encode(convert_to(tenant, 'UTF8'), 'hex')
        OR parts[3] IS DISTINCT FROM encode(convert_to(operation, 'UTF8'), 'hex')
    THEN
        RAISE EXCEPTION 'semel: the permit is for another tenant or operation'
            USING ERRCODE = 'SM003',
                HINT = 'roll back; pass the tenant and the operation that this code serves';
    END IF;
    facet := decode(parts[5], 'hex');
    token := decode(parts[6], 'hex');
    fence := parts[7]::bigint;
END
$$;

-- The kept headers of an outcome, in the bytes of semel's codec: their number, and for each 2 + name,
-- 4 + value. Values are Latin-1, as HTTP says.
CREATE FUNCTION semel.write_headers(headers jsonb) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    header jsonb;
    name text;
    value text;
    bytes bytea := '';
    count integer := 0;
    total integer := 0;
BEGIN
    IF headers IS NULL OR jsonb_typeof(headers) <> 'array' OR jsonb_array_length(headers) > 256 THEN
        RAISE EXCEPTION 'semel: headers are not an array of at most 256 pairs'
            USING ERRCODE = 'SM007', HINT = 'pass a JSON array of [name, value]';
    END IF;
    FOR i IN 0 .. jsonb_array_length(headers) - 1 LOOP
        header := headers -> i;
        IF jsonb_typeof(header) = 'array' AND jsonb_array_length(header) = 2
            AND jsonb_typeof(header -> 0) = 'string' AND jsonb_typeof(header -> 1) = 'string'
        THEN
            name := lower((header ->> 0) COLLATE "C");
            value := header ->> 1;
        END IF;
        IF name IS NULL OR octet_length(name) > 1024 OR name COLLATE "C" !~ '^[!#$%&''*+.^_`|~0-9a-z-]+$'
            OR value COLLATE "C" !~ '^[\t\u0020-\u007e\u0080-\u00ff]*$'
        THEN
            RAISE EXCEPTION 'semel: a header is not a pair of a name and a value of HTTP'
                USING ERRCODE = 'SM007', HINT = 'a value is one line of Latin-1';
        END IF;
        total := total + octet_length(name) + length(value);
        count := count + 1;
        bytes := bytes || substr(int4send(octet_length(name)), 3) || convert_to(name, 'UTF8')
            || int4send(length(value)) || convert_to(value, 'LATIN1');
        name := NULL;
    END LOOP;
    IF total > 65536 THEN
        RAISE EXCEPTION 'semel: the headers have more than 65536 bytes' USING ERRCODE = 'SM007';
    END IF;
    RETURN substr(int4send(count), 3) || bytes;
END
$$;

-- The bytes of an outcome, as version 1 of semel's codec writes them.
CREATE FUNCTION semel.write_outcome(
    status integer, headers jsonb, body bytea, body_kept boolean, pointer_kind text, pointer_id text
) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    bytes bytea;
    checked boolean;
BEGIN
    IF status IS NULL OR status NOT BETWEEN 0 AND 65535 THEN
        RAISE EXCEPTION 'semel: status is not a number from 0 to 65535' USING ERRCODE = 'SM007';
    END IF;
    IF body_kept IS NULL THEN
        RAISE EXCEPTION 'semel: body_kept is missing'
            USING ERRCODE = 'SM007', HINT = 'leave it out, or pass true or false';
    END IF;
    IF octet_length(body) > 67108864 THEN
        RAISE EXCEPTION 'semel: the body has more than 67108864 bytes'
            USING ERRCODE = 'SM007', HINT = 'pass body_kept => false and a pointer';
    END IF;
    bytes := substr(int4send(status), 3) || semel.write_headers(headers)
        || CASE
            WHEN body_kept
                THEN '\x01'::bytea || int4send(coalesce(octet_length(body), 0)) || coalesce(body, '')
            ELSE '\x00'::bytea
        END;
    IF pointer_kind IS NULL AND pointer_id IS NULL THEN
        bytes := bytes || '\x00'::bytea;
    ELSE
        checked :=
            semel.check_text(pointer_kind, 'pointer_kind', 255, '', 'pass both parts or none')
            AND semel.check_text(pointer_id, 'pointer_id', 255, '', 'pass both parts or none');
        bytes := bytes || '\x01'::bytea
            || substr(int4send(octet_length(convert_to(pointer_kind, 'UTF8'))), 4)
            || convert_to(pointer_kind, 'UTF8')
            || substr(int4send(octet_length(convert_to(pointer_id, 'UTF8'))), 4)
            || convert_to(pointer_id, 'UTF8');
    END IF;
    RETURN '\x01'::bytea || substr(sha256(bytes), 1, 4) || bytes;
END
$$;

-- A number of 4 bytes, that of the first byte being 1.
CREATE FUNCTION semel.read_number(bytes bytea, at integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (get_byte(bytes, at - 1)::bigint << 24) + (get_byte(bytes, at) << 16)
        + (get_byte(bytes, at + 1) << 8) + get_byte(bytes, at + 2)
$$;

-- Reads the bytes of an outcome. A zero byte in a header, which HTTP forbids and JSON cannot hold, is
-- read as a blank.
CREATE FUNCTION semel.read_outcome(
    outcome bytea, OUT status integer, OUT headers jsonb, OUT body bytea, OUT body_kept boolean
)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    at integer := 10;
    pairs jsonb[] := '{}';
    length integer;
    name text;
    value bytea;
BEGIN
    IF get_byte(outcome, 0) <> 1 THEN
        RAISE EXCEPTION 'semel: the outcome was written by a newer version'
            USING ERRCODE = '0A000', HINT = 'migrate the schema';
    END IF;
    IF substr(outcome, 2, 4) <> substr(sha256(substr(outcome, 6)), 1, 4) THEN
        RAISE EXCEPTION 'semel: the stored outcome is damaged'
            USING ERRCODE = 'XX001', HINT = 'restore a backup';
    END IF;
    status := get_byte(outcome, 5) * 256 + get_byte(outcome, 6);
    FOR i IN 1 .. get_byte(outcome, 7) * 256 + get_byte(outcome, 8) LOOP
        length := get_byte(outcome, at - 1) * 256 + get_byte(outcome, at);
        name := convert_from(substr(outcome, at + 2, length), 'UTF8');
        at := at + 2 + length;
        length := semel.read_number(outcome, at);
        value := substr(outcome, at + 4, length);
        WHILE position('\x00'::bytea IN value) > 0 LOOP
            value := overlay(value PLACING '\x20'::bytea FROM position('\x00'::bytea IN value));
        END LOOP;
        at := at + 4 + length;
        pairs := pairs || jsonb_build_array(name, convert_from(value, 'LATIN1'));
    END LOOP;
    headers := to_jsonb(pairs);
    body_kept := get_byte(outcome, at - 1) = 1;
    IF body_kept THEN
        body := substr(outcome, at + 5, semel.read_number(outcome, at + 1)::integer);
    END IF;
END
$$;

-- What a claim meets, in the order that decide::claim has: fresh, reopened, rerun or reconcile are
-- grants; lose writes "unknown"; replay, and the rest are refusals. No state: no record.
CREATE FUNCTION semel.judge(
    state text, plan bytea, digest bytea, compare boolean, lease_until_us numeric,
    replay_until_us bigint, remember_until_us bigint,
    asked_digest bytea, asked_compare text, on_lost text, now_us bigint
) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    phase text := CASE
        WHEN state IS NULL THEN 'absent'
        WHEN state IN ('running', 'unknown') THEN state
        WHEN now_us >= remember_until_us THEN 'absent'
        WHEN state = 'open' THEN 'open'
        WHEN now_us >= replay_until_us THEN 'forgotten'
        ELSE 'done'
    END;
BEGIN
    IF phase = 'absent' THEN
        RETURN 'fresh';
    END IF;
    IF (CASE
        WHEN phase = 'open' THEN compare
        WHEN asked_compare = 'replay-first' THEN phase = 'running' AND on_lost <> 'hold'
        ELSE true
    END) THEN
        IF plan <> semel.plan() THEN
            RETURN 'incomparable';
        ELSIF digest <> asked_digest THEN
            RETURN 'mismatch';
        END IF;
    END IF;
    RETURN CASE
        WHEN phase IN ('unknown', 'forgotten') THEN phase
        WHEN phase = 'running' AND now_us < lease_until_us THEN 'in-progress'
        WHEN phase = 'running' THEN CASE on_lost WHEN 'hold' THEN 'lose' ELSE on_lost END
        WHEN phase = 'open' THEN 'reopened'
        ELSE 'replay'
    END;
END
$$;
