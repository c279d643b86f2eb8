//! The table of statements. One statement, one file, runnable by hand on the schema `semel`; the name
//! of the schema is put in once, when a store is built.

use crate::schema::Schema;

/// The server needs no comment on what it runs.
fn without_head(text: &str) -> &str {
    let head = text.lines().take_while(|line| line.starts_with("--"));
    let head: usize = head.map(|line| line.len() + 1).sum();
    &text[head.min(text.len())..]
}

macro_rules! statements {
    ($($name:ident => $file:literal,)*) => {
        /// Every statement, on one schema.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: Box<str>,)*
        }

        impl Statements {
            /// Puts the name of the schema in.
            pub(crate) fn new(schema: &Schema) -> Self {
                Self { $($name: schema.put_into(without_head(include_str!($file))),)* }
            }
        }
    };
}

statements! {
    audit_list => "../sql/audit/list.sql",
    audit_list_intent => "../sql/audit/list_intent.sql",
    audit_note => "../sql/audit/note.sql",
    audit_recall => "../sql/audit/recall.sql",
    audit_trail => "../sql/audit/trail.sql",
    audit_trim => "../sql/audit/trim.sql",
    import_begin => "../sql/import/begin.sql",
    import_end => "../sql/import/end.sql",
    import_state => "../sql/import/state.sql",
    inbox_advance => "../sql/inbox/advance.sql",
    inbox_attempts => "../sql/inbox/attempts.sql",
    inbox_audit => "../sql/inbox/audit.sql",
    inbox_chain => "../sql/inbox/chain.sql",
    inbox_check => "../sql/inbox/check.sql",
    inbox_consumers => "../sql/inbox/consumers.sql",
    inbox_count => "../sql/inbox/count.sql",
    inbox_due => "../sql/inbox/due.sql",
    inbox_durably => "../sql/inbox/durably.sql",
    inbox_had => "../sql/inbox/had.sql",
    inbox_mark => "../sql/inbox/mark.sql",
    inbox_move => "../sql/inbox/move.sql",
    inbox_note => "../sql/inbox/note.sql",
    inbox_park => "../sql/inbox/park.sql",
    inbox_parked => "../sql/inbox/parked.sql",
    inbox_parked_one => "../sql/inbox/parked_one.sql",
    inbox_position => "../sql/inbox/position.sql",
    inbox_positions => "../sql/inbox/positions.sql",
    inbox_receive => "../sql/inbox/receive.sql",
    inbox_receive_all => "../sql/inbox/receive_all.sql",
    inbox_receive_parked => "../sql/inbox/receive_parked.sql",
    inbox_record => "../sql/inbox/record.sql",
    inbox_record_all => "../sql/inbox/record_all.sql",
    inbox_recorded => "../sql/inbox/recorded.sql",
    inbox_recorded_all => "../sql/inbox/recorded_all.sql",
    inbox_sweep => "../sql/inbox/sweep.sql",
    inbox_trim => "../sql/inbox/trim.sql",
    inbox_uncount => "../sql/inbox/uncount.sql",
    lease_drop => "../sql/lease/drop.sql",
    lease_renew => "../sql/lease/renew.sql",
    lease_rewind => "../sql/lease/rewind.sql",
    meta_read => "../sql/meta/read.sql",
    migration_apply => "../sql/migration/apply.sql",
    migration_create => "../sql/migration/create.sql",
    migration_exists => "../sql/migration/exists.sql",
    migration_lacks => "../sql/migration/lacks.sql",
    migration_list => "../sql/migration/list.sql",
    migration_lock => "../sql/migration/lock.sql",
    move_begin => "../sql/move/begin.sql",
    move_close => "../sql/move/close.sql",
    move_open => "../sql/move/open.sql",
    move_raise => "../sql/move/raise.sql",
    move_standing => "../sql/move/standing.sql",
    move_why => "../sql/move/why.sql",
    outbox_alive => "../sql/outbox/alive.sql",
    outbox_append => "../sql/outbox/append.sql",
    outbox_audit => "../sql/outbox/audit.sql",
    outbox_chosen => "../sql/outbox/chosen.sql",
    outbox_destinations => "../sql/outbox/destinations.sql",
    outbox_due => "../sql/outbox/due.sql",
    outbox_forget => "../sql/outbox/forget.sql",
    outbox_hint => "../sql/outbox/hint.sql",
    outbox_lanes => "../sql/outbox/lanes.sql",
    outbox_late => "../sql/outbox/late.sql",
    outbox_lead => "../sql/outbox/lead.sql",
    outbox_list => "../sql/outbox/list.sql",
    outbox_listen => "../sql/outbox/listen.sql",
    outbox_mark => "../sql/outbox/mark.sql",
    outbox_members => "../sql/outbox/members.sql",
    outbox_old => "../sql/outbox/old.sql",
    outbox_parked => "../sql/outbox/parked.sql",
    outbox_pass => "../sql/outbox/pass.sql",
    outbox_renew => "../sql/outbox/renew.sql",
    outbox_replay => "../sql/outbox/replay.sql",
    outbox_retain => "../sql/outbox/retain.sql",
    outbox_settle => "../sql/outbox/settle.sql",
    outbox_settled => "../sql/outbox/settled.sql",
    outbox_trim => "../sql/outbox/trim.sql",
    outbox_trim_left_out => "../sql/outbox/trim_left_out.sql",
    outbox_unseen => "../sql/outbox/unseen.sql",
    outbox_window => "../sql/outbox/window.sql",
    prepared_list => "../sql/prepared/list.sql",
    record_bring => "../sql/record/bring.sql",
    record_claim => "../sql/record/claim.sql",
    record_complete => "../sql/record/complete.sql",
    record_count => "../sql/record/count.sql",
    record_insert => "../sql/record/insert.sql",
    record_list => "../sql/record/list.sql",
    record_list_held => "../sql/record/list_held.sql",
    record_list_tenant => "../sql/record/list_tenant.sql",
    record_lock => "../sql/record/lock.sql",
    record_look => "../sql/record/look.sql",
    record_sweep => "../sql/record/sweep.sql",
    record_write => "../sql/record/write.sql",
    reference_claim => "../sql/reference/claim.sql",
    reference_sweep => "../sql/reference/sweep.sql",
    reference_use => "../sql/reference/use.sql",
    session_look => "../sql/session/look.sql",
    session_stoppable => "../sql/session/stoppable.sql",
    slot_advance => "../sql/slot/advance.sql",
    slot_create => "../sql/slot/create.sql",
    slot_drop => "../sql/slot/drop.sql",
    slot_find => "../sql/slot/find.sql",
    slot_peek => "../sql/slot/peek.sql",
    slot_publish => "../sql/slot/publish.sql",
    time_read => "../sql/time/read.sql",
    transact_bridged => "../sql/transact/bridged.sql",
    transact_claim => "../sql/transact/claim.sql",
    transact_confirm => "../sql/transact/confirm.sql",
    transact_insert => "../sql/transact/insert.sql",
    transact_load => "../sql/transact/load.sql",
    transact_lose => "../sql/transact/lose.sql",
    transact_rewind => "../sql/transact/rewind.sql",
    transact_unmark => "../sql/transact/unmark.sql",
    transact_update => "../sql/transact/update.sql",
    transaction_begin => "../sql/transaction/begin.sql",
}
