-- Three roles nobody logs in as, to be granted to those who do, each with the least it needs. Run it
-- as the owner of the schema after each migration; run again, it changes nothing. What is granted to
-- semel_app lets an application finish what it holds a permit for, and see nothing else of the tables.

DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['semel_app', 'semel_reader', 'semel_store'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- somebody else was quicker
            END;
        END IF;
    END LOOP;
END
$roles$;

GRANT USAGE ON SCHEMA "semel" TO semel_app, semel_reader, semel_store;

-- PostgreSQL lets everybody call what a migration has made since.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "semel" FROM PUBLIC;

-- Applications of any language, which hold an intent inside their own transaction.
GRANT EXECUTE ON FUNCTION
    semel.claim,
    semel.complete,
    semel.fail,
    semel.publish,
    semel.receive,
    semel.received,
    semel.release,
    semel.renew,
    semel.schema_version,
    semel.status
TO semel_app;

-- Applications that append events by an INSERT of their own, as an ORM does: not where in the table, nor
-- in which transaction, nor for which intent; semel.publish names that. An INSERT draws its position and
-- its time by these functions.
GRANT INSERT (
    id, aggregatetype, aggregateid, type, payload, headers, aggregate_version, trace, cause
) ON semel.outbox TO semel_app;
GRANT USAGE ON SEQUENCE semel.outbox_pos TO semel_app, semel_store;
GRANT EXECUTE ON FUNCTION
    semel.event_id,
    semel.now_us
TO semel_app;

-- People and dashboards.
GRANT SELECT ON semel.intent TO semel_reader;
GRANT EXECUTE ON FUNCTION
    semel.instant,
    semel.lease_end,
    semel.now_us,
    semel.schema_version
TO semel_reader;

-- Processes with the crate or the gateway: the store, and claims inside transactions of Rust. They read
-- and write the tables themselves. Such a role sees every record of every tenant. It owns nothing, so
-- it cannot migrate.
GRANT SELECT ON ALL TABLES IN SCHEMA "semel" TO semel_store;
GRANT INSERT, UPDATE, DELETE ON
    semel.audit,
    semel.inbox,
    semel.inbox_attempt,
    semel.inbox_audit,
    semel.inbox_parked,
    semel.inbox_position,
    semel.lease,
    semel.record,
    semel.reference
TO semel_store;
GRANT UPDATE ON semel.meta TO semel_store;
GRANT INSERT (
    id, aggregatetype, aggregateid, type, payload, headers, aggregate_version, trace, cause, tenant,
    operation, key, facet
) ON semel.outbox TO semel_store;
GRANT INSERT, DELETE ON semel.outbox_cursor TO semel_store;
GRANT INSERT, UPDATE, DELETE ON
    semel.outbox_audit,
    semel.outbox_left_out,
    semel.outbox_parked
TO semel_store;
GRANT SELECT ON SEQUENCE semel.outbox_pos TO semel_store;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "semel" TO semel_store;
