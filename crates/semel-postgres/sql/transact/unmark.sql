-- Takes a claim's mark back: it was refused, and the transaction goes on.
-- $1 the claim's mark
SELECT set_config(
    'semel_claim.marks',
    replace(coalesce(current_setting('semel_claim.marks', true), ''), $1, ''),
    true
);
