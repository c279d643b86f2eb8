//! Which slot of a table that is taken over is the one that was there: only that one had what was before.

use std::{process::Stdio, time::Duration};

use semel_postgres::{ImportSlot, PostgresStore};
use semel_testkit::servers::{Major, Postgres, Process};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};
use tokio_postgres::Client;

use super::{
    importing::{import, insert, plain},
    slot::logical,
};
use crate::fixture::Fixture;

/// A table, a slot and a publication that tells of it, of one who takes over.
struct Stage {
    fixture: Fixture,
    client: Client,
    table: String,
    slot: String,
}

impl Stage {
    /// Sets all up as a role that may do everything.
    async fn new() -> Self {
        Self::of(logical().await).await
    }

    /// Sets all up as a role that owns its table and the schema, and may do nothing else.
    async fn plain_owner() -> Self {
        // Its own: another import, by who may, gives every slot of the server a reset to be known by.
        static SERVER: OnceCell<Postgres> = OnceCell::const_new();
        let start = || Postgres::builder(Major::V15).setting("wal_level", "logical").start();
        let mut fixture = Fixture::of_server(SERVER.get_or_init(start).await);
        let (admin, owner) = (fixture.connect().await, format!("owner_{}", fixture.schema));
        let made =
            format!("CREATE ROLE {owner} LOGIN; GRANT CREATE ON DATABASE postgres TO {owner}");
        admin.batch_execute(&made).await.unwrap();
        fixture.url = fixture.url.replace("postgres@", &format!("{owner}@"));
        fixture.store_url = fixture.url.clone();
        PostgresStore::migrate(&fixture.builder()).await.unwrap();
        Self::of(fixture).await
    }

    async fn of(fixture: Fixture) -> Self {
        let client = fixture.connect().await;
        let table = plain(&fixture, &client).await;
        let slot = format!("{}_dz", fixture.schema);
        let publish = format!("CREATE PUBLICATION \"{slot}\" FOR TABLE {table}");
        client.batch_execute(&publish).await.unwrap();
        let stage = Self { fixture, client, table, slot };
        stage.make().await;
        stage
    }

    /// Asks as the one who may make and read slots.
    async fn admin(&self, statement: &str) {
        let statement = statement.replace("SLOT", &self.slot);
        self.fixture.server.run_sql(&statement).await;
    }

    async fn make(&self) {
        self.admin("SELECT pg_create_logical_replication_slot('SLOT', 'pgoutput')").await;
    }

    async fn drop(&self) {
        self.admin("SELECT pg_drop_replication_slot('SLOT')").await;
    }

    /// Reads and confirms all that the slot has.
    async fn read(&self) {
        let read = "SELECT count(*) FROM pg_logical_slot_get_binary_changes('SLOT', NULL, NULL,
            'proto_version', '1', 'publication_names', 'SLOT')";
        self.admin(read).await;
    }

    async fn insert(&self, aggregate: &str) {
        insert(&self.client, &self.table, aggregate).await;
    }

    async fn import(&self) {
        import(&self.fixture, &self.client, &self.table, "").await;
    }

    async fn state_of(&self, slot: &str) -> ImportSlot {
        let builder = self.fixture.builder();
        let state = PostgresStore::outbox_import(&builder, &self.table, Some(slot)).await;
        state.unwrap().slot.unwrap()
    }

    async fn state(&self) -> ImportSlot {
        self.state_of(&self.slot).await
    }

    /// Reads the slot as a connector does, on a connection that stays, until told to end.
    async fn connector(&self) -> Process {
        let connector = Process::start(Major::V15.program("pg_recvlogical"), |command| {
            let server = self.fixture.server.url();
            let publication = format!("publication_names={}", self.slot);
            command.args([
                "-d", &server, "--slot", &self.slot, "--start", "-f", "-", "-s", "1", "-F", "1",
            ]);
            command.args(["-o", "proto_version=1", "-o", &publication]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
        });
        let active = "SELECT active FROM pg_replication_slots WHERE slot_name = $1";
        until("the slot is read", async || {
            self.client.query_one(active, &[&self.slot]).await.unwrap().get(0)
        })
        .await;
        connector
    }

    /// Ends a connector and waits until the server knows.
    async fn end(&self, mut connector: Process) {
        connector.kill();
        let active = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1";
        until("the slot is free", async || {
            self.client.query_one(active, &[&self.slot]).await.unwrap().get(0)
        })
        .await;
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}: this does not come true");
        sleep(Duration::from_millis(20)).await;
    }
}

/// M95: a slot that was made after the switch has a place behind it, and never had what was before.
#[tokio::test]
async fn a_slot_that_was_made_after_the_switch_has_confirmed_nothing() {
    let stage = Stage::new().await;
    let later = format!("{}_later", stage.fixture.schema);
    stage.insert("before").await;
    stage.read().await;
    stage.import().await;
    assert_eq!(stage.state().await, ImportSlot::Behind);
    assert_eq!(stage.state_of(&later).await, ImportSlot::Missing);
    let make = format!("SELECT pg_create_logical_replication_slot('{later}', 'pgoutput')");
    stage.admin(&make).await;
    assert_eq!(stage.state_of(&later).await, ImportSlot::New);
    // A connector that finds its slot gone makes one of the same name.
    stage.drop().await;
    stage.make().await;
    assert_eq!(stage.state().await, ImportSlot::New);
    stage.drop().await;
    stage.admin(&format!("SELECT pg_drop_replication_slot('{later}')")).await;
}

/// M95: whether the slot before had told much or nothing, one that was made anew has soon told as much.
#[tokio::test]
async fn a_slot_that_was_made_anew_is_never_taken_for_the_one_before_however_much_it_tells() {
    for told_before in [0, 2] {
        let stage = Stage::new().await;
        for _ in 0..told_before {
            stage.insert("told").await;
        }
        stage.read().await;
        stage.insert("sent by nobody").await;
        stage.import().await;
        stage.drop().await;
        stage.make().await;
        for more in 0..4 {
            let state = stage.state().await;
            // Another import on this server may have given it a reset: then nothing is certain.
            let is_safe = matches!(state, ImportSlot::New | ImportSlot::Unproven);
            assert!(is_safe, "{state:?}: {told_before} before, {more} since");
            stage.insert("since").await;
            stage.read().await;
        }
        stage.drop().await;
    }
}

#[tokio::test]
async fn the_slot_that_was_there_is_known_by_the_reset_of_its_statistics() {
    let stage = Stage::new().await;
    stage.insert("before").await;
    stage.import().await;
    assert_eq!(stage.state().await, ImportSlot::Behind);
    stage.insert("since").await;
    stage.read().await;
    assert_eq!(stage.state().await, ImportSlot::Confirmed);
    // What an operator resets, or a crash drops, shows nothing any more, of either slot.
    stage.admin("SELECT pg_stat_reset_replication_slot('SLOT')").await;
    assert_eq!(stage.state().await, ImportSlot::Unproven);
    stage.drop().await;
    stage.make().await;
    stage.admin("SELECT pg_stat_reset_replication_slot('SLOT')").await;
    assert_eq!(stage.state().await, ImportSlot::Unproven);
    stage.drop().await;
}

/// M95: in one transaction too, which is told its first look at the statistics again.
#[tokio::test]
async fn a_transaction_that_asks_again_sees_that_a_slot_was_made_anew() {
    let stage = Stage::new().await;
    stage.import().await;
    stage.insert("since").await;
    stage.read().await;
    let ask = format!("SELECT semel.import_slot('{}', '{}')", stage.table, stage.slot);
    let ask = stage.fixture.sql(&ask);
    stage.client.batch_execute("BEGIN").await.unwrap();
    let told: String = stage.client.query_one(&ask, &[]).await.unwrap().get(0);
    assert_eq!(told, "confirmed");
    stage.drop().await;
    // A slot waits for transactions that write, and this one only reads.
    stage.make().await;
    let told: String = stage.client.query_one(&ask, &[]).await.unwrap().get(0);
    assert_eq!(told, "new");
    stage.client.batch_execute("ROLLBACK").await.unwrap();
    stage.drop().await;
}

/// M95: a role that may reset no statistics has the connection that stays, and nothing else.
#[tokio::test]
async fn a_plain_owner_knows_the_slot_by_the_connection_that_has_read_it_ever_since() {
    let stage = Stage::plain_owner().await;
    stage.insert("before").await;
    let connector = stage.connector().await;
    stage.import().await;
    stage.insert("since").await;
    until("the connector confirms", async || stage.state().await == ImportSlot::Confirmed).await;
    stage.end(connector).await;
    assert_eq!(stage.state().await, ImportSlot::Unproven);
    let connector = stage.connector().await;
    assert_eq!(stage.state().await, ImportSlot::Unproven, "it may be another slot by now");
    stage.end(connector).await;
    stage.drop().await;
    stage.make().await;
    for _ in 0..4 {
        stage.insert("since").await;
        stage.read().await;
        assert_ne!(stage.state().await, ImportSlot::Confirmed);
    }
    stage.drop().await;
}

/// What an older version noted of a slot, its count, shows nothing.
#[tokio::test]
async fn an_import_of_an_older_version_proves_no_slot_and_knows_those_that_were_not_there() {
    let stage = Stage::new().await;
    stage.import().await;
    let noted = format!(
        "DO $$ BEGIN EXECUTE format('COMMENT ON TRIGGER semel_import ON {} IS %L',
         pg_current_wal_insert_lsn() || ' {{\"{}\": 0}}'); END $$",
        stage.table, stage.slot
    );
    stage.client.batch_execute(&noted).await.unwrap();
    assert_eq!(stage.state().await, ImportSlot::Behind);
    stage.insert("since").await;
    stage.read().await;
    assert_eq!(stage.state().await, ImportSlot::Unproven);
    let make = "SELECT pg_create_logical_replication_slot('SLOT_2', 'pgoutput')";
    stage.admin(make).await;
    assert_eq!(stage.state_of(&format!("{}_2", stage.slot)).await, ImportSlot::New);
    stage.admin("SELECT pg_drop_replication_slot('SLOT_2')").await;
    stage.drop().await;
}
