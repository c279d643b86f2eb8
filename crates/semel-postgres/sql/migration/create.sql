-- Makes the schema and the table of what was applied to it. From here on no lock is waited for long:
-- whoever waits for a table keeps all who come after from it.
SET LOCAL lock_timeout = '2s';
CREATE SCHEMA IF NOT EXISTS "semel";
CREATE TABLE IF NOT EXISTS semel.migration (
    version bigint PRIMARY KEY,
    name text NOT NULL,
    digest bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
