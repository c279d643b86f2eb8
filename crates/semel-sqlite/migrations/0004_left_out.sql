-- What operators had left out is kept in mind for as long as its event is kept, so that a replay of what a
-- destination had does not bring it back. (What was left out before this is not known.)
CREATE TABLE semel_left_out (
    id TEXT NOT NULL,
    destination TEXT NOT NULL,
    PRIMARY KEY (id, destination)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER semel_outbox_goes AFTER DELETE ON semel_outbox
BEGIN
    DELETE FROM semel_left_out WHERE id = old.id;
END;

UPDATE semel_meta SET schema = 4 WHERE one = 1;
