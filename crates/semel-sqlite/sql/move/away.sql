-- Refuses from now on whatever writes a record, in every process that uses the file, by triggers that stand
-- there only while the store is closed: an open one pays nothing. What is kept is still read.
CREATE TRIGGER semel_away_insert BEFORE INSERT ON semel_record
BEGIN
    SELECT RAISE(ABORT, 'semel: the store is closed (away)');
END;

CREATE TRIGGER semel_away_update BEFORE UPDATE ON semel_record
BEGIN
    SELECT RAISE(ABORT, 'semel: the store is closed (away)');
END;
