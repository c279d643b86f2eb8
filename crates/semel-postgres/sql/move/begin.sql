-- Lets this transaction write into a store that is closed for it, and says whether it is.
SELECT
    EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = 'semel.record'::regclass AND tgname = 'closed_arriving'
    ),
    set_config('semel_move.brings', 'yes', true);
