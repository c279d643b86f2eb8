//! Another server: a standby, a promotion, a restore from a dump.

use std::process::Command;

use semel::{
    StoreErrorKind,
    outbox::{OutboxInspect, OutboxStore, Settle, Settled, Start},
};
use semel_postgres::{ImportOutbox, ImportSlot, ImportState, PostgresStore};
use semel_testkit::servers::{Major, Postgres, failover_url};

use super::{steps::*, trouble::patient};

/// M11a: a standby is refused by whoever opens a store on it, and by the functions themselves.
#[tokio::test]
async fn a_standby_is_refused() {
    for major in [Major::V15, Major::V18] {
        let primary = Postgres::start(major).await;
        let store = PostgresStore::builder(primary.url()).open().await.unwrap();
        let leader = lead(&store, "kafka").await;
        let standby = primary.standby("b").await;
        primary.until_caught_up(&standby).await;
        let refused =
            PostgresStore::builder(standby.url()).migrate(false).open().await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::ReadOnly);
        let pass = format!("SELECT * FROM semel.outbox_pass('kafka', {}, false)", leader.epoch.0);
        let said = standby.try_sql("postgres", &pass).await.unwrap_err();
        assert!(said.contains("a standby cannot tell"), "{said}");
    }
}

/// M34: after a promotion the cursor is there, and the relay goes on behind what it settled, with the
/// events of a transaction that committed late on the old primary.
#[tokio::test]
async fn a_promotion_keeps_the_cursor() {
    for major in [Major::V15, Major::V18] {
        let mut old = Postgres::start(major).await;
        PostgresStore::migrate(&PostgresStore::builder(old.url())).await.unwrap();
        let new = old.standby("b").await;
        old.commits_wait_for("b").await;
        let both = failover_url(&[&old, &new], "postgres");
        let store = PostgresStore::builder(both).open().await.unwrap();
        let leader = lead(&store, "kafka").await;
        old.run_sql(&publish("1", "settled")).await;
        assert_eq!(told(&drain(&store, &leader, 10).await), ["settled"]);
        old.run_sql(&format!("{}{}", publish("1", "left"), publish("2", "left too"))).await;
        let window = store.read(leader.clone(), None, 1, 1_000).await.unwrap();
        assert_eq!(told(&window.events), ["left"]);
        old.kill();
        new.promote().await;
        new.run_sql(&publish("1", "new")).await;
        let again = patient(|| store.read(leader.clone(), None, 1, 1_000)).await;
        assert_eq!((again.pass, again.events), (window.pass, window.events));
        assert_eq!(told(&drain(&store, &leader, 10).await), ["left", "left too", "new"]);
        assert_eq!(leader.generation, 1);
    }
}

/// M11b: with the option, nothing leaves before a standby has it on disk.
#[tokio::test]
async fn nothing_leaves_before_a_standby_has_it() {
    let primary = Postgres::start(Major::V15).await;
    let store = PostgresStore::builder(primary.url()).outbox_flushed(true).open().await.unwrap();
    let leader = lead(&store, "kafka").await;
    primary.run_sql(&publish("1", "a")).await;
    assert_eq!(told(&drain(&store, &leader, 10).await), [""; 0], "there is no standby");
    let standby = primary.standby("b").await;
    primary.until_caught_up(&standby).await;
    let window = patient(|| async {
        let window = store.read(leader.clone(), None, 10, 1_000).await?;
        let none = || semel::StoreError::new(StoreErrorKind::Busy, "nothing was told yet");
        window.pass.is_some().then_some(window).ok_or_else(none)
    });
    assert_eq!(told(&window.await.events), ["a"]);
    drain(&store, &leader, 10).await;
    standby.pause();
    primary.run_sql(&publish("1", "phantom")).await;
    assert_eq!(told(&drain(&store, &leader, 10).await), [""; 0], "the standby does not answer");
    standby.resume();
}

/// M08: after a restore into another cluster, whose transaction ids are far behind, everything that the
/// destination did not have is read once: what was open in the pass, what was never read, what is new.
/// The servers of one major are copies of one cluster here, so each is of another.
#[tokio::test]
async fn a_restore_into_another_cluster_loses_nothing() {
    let first = Postgres::start(Major::V15).await;
    let store = PostgresStore::builder(first.url()).open().await.unwrap();
    let leader = lead(&store, "kafka").await;
    burn(&first, 300).await;
    first.run_sql(&publish("1", "settled")).await;
    drain(&store, &leader, 10).await;
    let four: String = (0..4).map(|n| publish("1", &format!("pass {n}"))).collect();
    first.run_sql(&four).await;
    let window = store.read(leader.clone(), None, 2, 1_000).await.unwrap();
    let upto = window.pass.map(|pass| (pass, window.upto));
    let settle = Settle { upto, ..settlement(&leader) };
    assert_eq!(store.settle(settle).await.unwrap(), Settled::Stored);
    first.run_sql(&publish("1", "never read")).await;

    let second = Postgres::start(Major::V17).await;
    move_over(&first, &second).await;
    second.run_sql(&publish("1", "new, before it leads")).await;
    let store = PostgresStore::builder(second.url()).open().await.unwrap();
    // What the leader of there says is refused here, and its lease ends.
    assert_eq!(store.renew(leader.clone(), LEASE).await.unwrap(), Settled::Stale);
    second.run_sql("UPDATE semel.outbox_cursor SET lease_us = 0").await;
    let moved = lead(&store, "kafka").await;
    assert_eq!(moved.generation, 2);
    second.run_sql(&publish("1", "new")).await;
    let all = told(&drain(&store, &moved, 2).await);
    assert_eq!(all, ["pass 2", "pass 3", "never read", "new, before it leads", "new"]);
    assert_eq!(told(&drain(&store, &moved, 2).await), [""; 0], "once");
    // A destination that is new gets all that is kept, of both clusters.
    let fresh = lead(&store, "webhooks").await;
    step(&store, &fresh, 3).await;

    // Once more, from the middle of what came with the first dump.
    let third = Postgres::start(Major::V18).await;
    move_over(&second, &third).await;
    let store = PostgresStore::builder(third.url()).open().await.unwrap();
    third.run_sql("UPDATE semel.outbox_cursor SET lease_us = 0").await;
    let moved = lead(&store, "kafka").await;
    assert_eq!(moved.generation, 3);
    let rest = told(&drain(&store, &lead(&store, "webhooks").await, 2).await);
    assert_eq!(rest, ["pass 2", "pass 3", "never read", "new, before it leads", "new"]);
    third.run_sql(&publish("1", "newest")).await;
    assert_eq!(told(&drain(&store, &moved, 10).await), ["newest"]);
    assert!(store.lead(ask("other", Start::Now)).await.is_ok());
    let states = store.destinations().await.unwrap();
    let waiting: Vec<_> = states.iter().map(|state| state.waiting).collect();
    assert_eq!(waiting, [0, 0, 1], "kafka, other, webhooks");
}

/// M08: a table that is taken over comes with a dump, and its take-over goes on there and can be ended: the function
/// of its trigger is asked for and not made up of a number that is another table's there. What was noted of the
/// log of the cluster before says nothing of the log of this one.
#[tokio::test]
async fn a_take_over_survives_a_restore_into_another_cluster() {
    let first = Postgres::start(Major::V15).await;
    PostgresStore::migrate(&PostgresStore::builder(first.url())).await.unwrap();
    let insert = |table: &str, id: &str| {
        format!("INSERT INTO {table} VALUES (gen_random_uuid(), 'order', '{id}', 'Placed', '7');")
    };
    let made = "(id uuid, aggregatetype text, aggregateid text, type text, payload text);";
    first.run_sql(&format!("CREATE TABLE outboxevent {made}")).await;
    let builder = PostgresStore::builder(first.url());
    PostgresStore::import_outbox(&builder, &ImportOutbox::of("outboxevent")).await.unwrap();
    first.run_sql(&insert("outboxevent", "before")).await;
    let slot = |of: ImportState| of.slot.unwrap();
    let state = PostgresStore::outbox_import(&builder, "outboxevent", Some("none")).await.unwrap();
    assert_eq!(slot(state), ImportSlot::Missing);

    let second = Postgres::start(Major::V18).await;
    move_over(&first, &second).await;
    // As versions before named it, where the number is another table's by now.
    let renamed = "DO $$ BEGIN EXECUTE (
        SELECT format('ALTER FUNCTION %s RENAME TO imported_%s', t.tgfoid::regprocedure,
            'other'::regclass::oid)
        FROM pg_trigger AS t WHERE t.tgname = 'semel_import'
    ); END $$;";
    second.run_sql(&format!("CREATE TABLE other {made} {renamed}")).await;
    let builder = PostgresStore::builder(second.url());
    let state = PostgresStore::outbox_import(&builder, "outboxevent", Some("none")).await.unwrap();
    assert_eq!(slot(state), ImportSlot::Moved);
    PostgresStore::import_outbox(&builder, &ImportOutbox::of("other")).await.unwrap();
    second.run_sql(&(insert("outboxevent", "one") + &insert("other", "two"))).await;
    assert!(PostgresStore::end_outbox_import(&builder, "outboxevent").await.unwrap());
    assert!(!PostgresStore::end_outbox_import(&builder, "outboxevent").await.unwrap());
    second.run_sql(&(insert("outboxevent", "ended") + &insert("other", "three"))).await;
    PostgresStore::import_outbox(&builder, &ImportOutbox::of("outboxevent")).await.unwrap();
    let state = PostgresStore::outbox_import(&builder, "outboxevent", Some("none")).await.unwrap();
    assert_eq!(slot(state), ImportSlot::Missing);
    assert!(PostgresStore::end_outbox_import(&builder, "other").await.unwrap());
    let store = builder.open().await.unwrap();
    let leader = lead(&store, "kafka").await;
    let events = drain(&store, &leader, 10).await;
    let ids: Vec<_> = events.iter().map(|placed| placed.event.lane.id()).collect();
    assert_eq!(ids, ["before", "one", "two", "three"]);
}

/// Uses transaction ids up.
async fn burn(server: &Postgres, ids: u32) {
    let all: String = (0..ids).map(|_| "SELECT pg_current_xact_id();\n").collect();
    server.run_sql(&all).await;
}

/// Dumps one server's database and restores it into another.
async fn move_over(from: &Postgres, to: &Postgres) {
    let dump = Command::new(from.major().program("pg_dump"))
        .args(["--dbname", &from.url()])
        .output()
        .unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.sql");
    std::fs::write(&file, &dump.stdout).unwrap();
    let restored = Command::new(to.major().program("psql"))
        .args([
            "--no-psqlrc",
            "--quiet",
            "--set",
            "ON_ERROR_STOP=1",
            "--dbname",
            &to.url(),
            "--file",
        ])
        .arg(&file)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
}
