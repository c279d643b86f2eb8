-- What the three examples need beside the schema of Semel: a table of payments, and an application that
-- may write it and call the functions.
CREATE TABLE payment (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    cents bigint NOT NULL CHECK (cents > 0)
);

GRANT SELECT, INSERT ON payment TO semel_app;
