//! The table of statements. One statement, one file, runnable by hand.

macro_rules! statements {
    ($($name:ident => $file:literal,)*) => {
        $(pub(crate) const $name: &str = include_str!($file);)*
    };
}

statements! {
    AUDIT_LIST => "../sql/audit/list.sql",
    AUDIT_LIST_INTENT => "../sql/audit/list_intent.sql",
    AUDIT_NOTE => "../sql/audit/note.sql",
    AUDIT_TRIM => "../sql/audit/trim.sql",
    META_READ => "../sql/meta/read.sql",
    META_WRITE => "../sql/meta/write.sql",
    MIGRATION_APPLY => "../sql/migration/apply.sql",
    MIGRATION_CREATE => "../sql/migration/create.sql",
    MIGRATION_EXISTS => "../sql/migration/exists.sql",
    MIGRATION_LIST => "../sql/migration/list.sql",
    PENDING_CLOSE => "../sql/pending/close.sql",
    PENDING_OPEN => "../sql/pending/open.sql",
    RECORD_CLAIM => "../sql/record/claim.sql",
    RECORD_COMPLETE => "../sql/record/complete.sql",
    RECORD_COUNT_FINISHED => "../sql/record/count_finished.sql",
    RECORD_COUNT_HELD => "../sql/record/count_held.sql",
    RECORD_DELETE => "../sql/record/delete.sql",
    RECORD_DUE => "../sql/record/due.sql",
    RECORD_FORGET => "../sql/record/forget.sql",
    RECORD_LIST => "../sql/record/list.sql",
    RECORD_LIST_HELD => "../sql/record/list_held.sql",
    RECORD_LIST_TENANT => "../sql/record/list_tenant.sql",
    RECORD_LOOK => "../sql/record/look.sql",
    RECORD_READ => "../sql/record/read.sql",
    RECORD_RENEW => "../sql/record/renew.sql",
    RECORD_WRITE => "../sql/record/write.sql",
}
