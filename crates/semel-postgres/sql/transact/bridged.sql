-- Ends a run that a gateway holds, by its permit; raises if the permit has ended or is another's.
-- $1 permit, $2 tenant, $3 operation, $4 state, $5 outcome, $6 pointer kind, $7 pointer id,
-- $8 replay for, $9 remember for
SELECT semel.finish(
    $1, $2, $3, $4, $5, $6, $7, $8 * interval '1 microsecond', $9 * interval '1 microsecond', NULL
);
