-- Notes a migration as applied.
-- $1 version, $2 name, $3 digest of its text
INSERT INTO semel.migration (version, name, digest) VALUES ($1, $2, $3);
