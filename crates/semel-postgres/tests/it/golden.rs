//! What applications call does not change under them: the text is only added to.

use std::collections::BTreeSet;

use semel_testkit::servers::Major;

use crate::{caller::Caller, fixture::Fixture};

const FUNCTIONS: &str = include_str!("testdata/functions.txt");
const REFERENCE: &str = include_str!("../../../../docs/reference/postgres-functions.md");

/// Every file that may raise a SQLSTATE of Semel's own.
const SOURCES: [&str; 13] = [
    include_str!("../../migrations/0001_records.sql"),
    include_str!("../../migrations/0002_values.sql"),
    include_str!("../../migrations/0003_claim.sql"),
    include_str!("../../migrations/0004_settle.sql"),
    include_str!("../../migrations/0005_keep.sql"),
    include_str!("../../migrations/0007_answers.sql"),
    include_str!("../../migrations/0008_outbox.sql"),
    include_str!("../../migrations/0009_relay.sql"),
    include_str!("../../migrations/0010_retain.sql"),
    include_str!("../../migrations/0011_outbox_words.sql"),
    include_str!("../../migrations/0013_inbox.sql"),
    include_str!("../../sql/move/close.sql"),
    include_str!("../../sql/transact/insert.sql"),
];

/// Describes the functions that the roles may call, and the view that people read.
const DESCRIBE: &str = "
    WITH called AS (
        SELECT p.oid, p.proname, p.proargmodes, p.proargnames, p.proallargtypes, p.proargtypes,
            p.pronargs, p.pronargdefaults, p.prorettype
        FROM pg_proc AS p
        WHERE p.pronamespace = trim(trailing '.' FROM 'semel.')::regnamespace AND p.prosecdef
            AND p.prorettype <> 'trigger'::regtype
    ), argument AS (
        SELECT c.proname, 'function ' || c.proname || ': ' || CASE
                WHEN coalesce(c.proargmodes[i], 'i') = 'o' THEN 'out '
                ELSE 'in ' || lpad(i::text, 2, '0') || ' '
            END || c.proargnames[i] || ' '
            || coalesce(c.proallargtypes[i], c.proargtypes[i - 1])::regtype
            || coalesce(' = ' || pg_get_function_arg_default(c.oid, i), '') AS line
        FROM called AS c
        CROSS JOIN generate_series(1, coalesce(cardinality(c.proargnames), 0)) AS i
    ), answer AS (
        SELECT c.proname, 'function ' || c.proname || ': returns ' || c.prorettype::regtype AS line
        FROM called AS c
        WHERE c.prorettype <> 'record'::regtype
    ), view AS (
        SELECT 'view intent: ' || a.attname || ' ' || a.atttypid::regtype AS line
        FROM pg_attribute AS a
        WHERE a.attrelid = 'semel.intent'::regclass AND a.attnum > 0
    )
    SELECT line FROM argument UNION ALL SELECT line FROM answer UNION ALL SELECT line FROM view";

fn codes(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices("SM0").map(|(at, _)| at);
    starts.filter_map(|at| text.get(at..at + 5)).collect()
}

#[tokio::test]
async fn what_applications_call_is_only_added_to() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let rows = Caller::new(&fixture).await.ok(DESCRIBE).await;
        let mut lines: BTreeSet<_> =
            rows.into_iter().map(|mut row| row.remove(0).unwrap()).collect();
        lines.extend(
            SOURCES.iter().flat_map(|text| codes(text)).map(|code| format!("raises {code}")),
        );
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(lines, FUNCTIONS, "{major}: add what is new to testdata/functions.txt");
    }
}

#[test]
fn the_reference_lists_every_code() {
    let raised: BTreeSet<_> = SOURCES.iter().flat_map(|text| codes(text)).collect();
    assert_eq!(codes(REFERENCE), raised);
}
