-- Makes the table of the migrations that were applied.
CREATE TABLE IF NOT EXISTS semel_migration (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    at_us INTEGER NOT NULL
) STRICT;
