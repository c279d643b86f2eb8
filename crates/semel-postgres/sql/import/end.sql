-- Ends the take-over of a table.
-- $1 the table
SELECT semel.end_import($1::text::regclass);
