-- Refuses from now on whatever writes a record, as away.sql does, until all records of another store are in.
CREATE TRIGGER semel_arriving_insert BEFORE INSERT ON semel_record
BEGIN
    SELECT RAISE(ABORT, 'semel: the store is closed (arriving)');
END;

CREATE TRIGGER semel_arriving_update BEFORE UPDATE ON semel_record
BEGIN
    SELECT RAISE(ABORT, 'semel: the store is closed (arriving)');
END;
