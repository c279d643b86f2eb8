-- Remembers a migration that was applied.
-- ?1 version, ?2 name, ?3 digest of its text, ?4 at
INSERT INTO semel_migration (version, name, digest, at_us) VALUES (?1, ?2, ?3, ?4);
