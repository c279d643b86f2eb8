-- Undoes away.sql and arriving.sql.
DROP TRIGGER IF EXISTS semel_away_insert;
DROP TRIGGER IF EXISTS semel_away_update;
DROP TRIGGER IF EXISTS semel_arriving_insert;
DROP TRIGGER IF EXISTS semel_arriving_update;
