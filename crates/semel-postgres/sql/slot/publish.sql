-- Makes the publication that the slots read by: positions alone, whatever the partition.
-- $1 name of the publication
SELECT semel.publish_positions($1);
