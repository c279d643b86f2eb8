//! Debezium's own engine on a private server: reads a table through a replication slot and routes it as an
//! outbox, so that Semel's table is known to be one.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    Postgres, Process,
    patience::{PATIENCE, blocking},
    scratch::{Medium, Scratch},
    tools, user,
};

/// Its program: one file that Java compiles by itself.
const PROGRAM: &str = include_str!("../../java/Debezium.java");

/// What it is told of every table.
const SETTINGS: &[&str] = &[
    "name=outbox",
    "connector.class=io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name=pgoutput",
    "offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms=200",
    "database.user=postgres",
    "database.password=none",
    "topic.prefix=test",
    "publication.autocreate.mode=disabled",
    "snapshot.mode=no_data",
    "tombstones.on.delete=false",
    "transforms=outbox",
    "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
];

/// How often it is looked at what was routed, which nothing tells of.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A record that was routed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Routed {
    /// The topic it goes to.
    pub topic: String,
    /// What it is keyed by.
    pub key: String,
    /// What it tells; `None` for a tombstone.
    pub payload: Option<Vec<u8>>,
    /// What goes beside it.
    pub headers: Vec<(String, String)>,
}

impl Routed {
    /// Returns the first header of a name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// A running engine. Dropping it ends it.
#[derive(Debug)]
pub struct Debezium {
    process: Option<Process>,
    scratch: Scratch,
    of: Outbox,
}

/// What an engine reads.
#[derive(Clone, Debug)]
struct Outbox {
    server: SocketAddr,
    database: String,
    table: String,
    publication: String,
    slot: String,
}

impl Debezium {
    /// Starts an engine on a table of a database, such as `semel.outbox`, that a publication of it has,
    /// and waits until it reads from its slot, which it makes if it is missing. The server's `wal_level`
    /// must be `logical`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn start(
        server: &Postgres,
        database: &str,
        table: &str,
        publication: &str,
        slot: &str,
    ) -> Self {
        let scratch = Scratch::new("debezium", Medium::Memory);
        let of = Outbox {
            server: server.address(),
            database: database.to_owned(),
            table: table.to_owned(),
            publication: publication.to_owned(),
            slot: slot.to_owned(),
        };
        let mut engine = Self { process: None, scratch, of };
        engine.restart(server).await;
        engine
    }

    /// Kills it as a power cut does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again where it was, after killing it if it still runs.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart(&mut self, server: &Postgres) {
        self.kill();
        let (folder, of) = (self.scratch.path().to_owned(), self.of.clone());
        let mut process = blocking(move || launch(&folder, &of)).await;
        self.until_its_slot_is_read(server, &mut process).await;
        self.process = Some(process);
    }

    async fn until_its_slot_is_read(&self, server: &Postgres, process: &mut Process) {
        let mut session = server.session(&server.url_of(&self.of.database));
        let ask = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = '{}';",
            self.of.slot
        );
        let deadline = Instant::now() + PATIENCE;
        while session.ask(&ask).await != "1" {
            let ended = process.ended();
            assert!(ended.is_none(), "Debezium ended: {ended:?}\n{}", self.log());
            assert!(Instant::now() < deadline, "no slot is read\n{}", self.log());
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns what it has routed by now, oldest first; what it routed before a kill again, if it did.
    ///
    /// # Panics
    ///
    /// Panics if it printed something else.
    #[must_use]
    pub fn routed(&self) -> Vec<Routed> {
        let text = fs::read_to_string(self.scratch.path().join("routed")).unwrap_or_default();
        // Only whole lines: the last may still be in the making.
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(read).collect()
    }

    /// Waits until what it has routed is as asked, and returns it all.
    ///
    /// # Panics
    ///
    /// Panics if that does not come.
    pub async fn until_routed(&self, is_all: impl Fn(&[Routed]) -> bool) -> Vec<Routed> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let routed = self.routed();
            if is_all(&routed) {
                return routed;
            }
            assert!(Instant::now() < deadline, "all it routed is {routed:?}\n{}", self.log());
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns what it has said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }
}

fn launch(folder: &Path, of: &Outbox) -> Process {
    let source = folder.join("Debezium.java");
    fs::write(&source, PROGRAM).expect("a program can be written");
    let append = |name: &str| {
        let file = File::options().create(true).append(true).open(folder.join(name));
        file.expect("a file can be opened")
    };
    let own = [
        format!("offset.storage.file.filename={}", folder.join("offsets").display()),
        format!("database.hostname={}", of.server.ip()),
        format!("database.port={}", of.server.port()),
        format!("database.dbname={}", of.database),
        format!("table.include.list={}", of.table),
        format!("publication.name={}", of.publication),
        format!("slot.name={}", of.slot),
    ];
    Process::start(tools::tools().java(), |command| {
        user::plain_environment(command);
        command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(tools::tools().jars("debezium")).arg(source).args(SETTINGS).args(own);
        command.current_dir(folder).stdout(append("routed")).stderr(append("log"));
    })
}

fn read(line: &str) -> Routed {
    let mut parts = line.split('\t').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_else(|| panic!("Debezium printed {line:?}"));
    let (topic, key, payload) = (next(), next(), next());
    let pair = |part: String| {
        let (name, value) = part.split_once('=').unwrap_or_else(|| panic!("no header: {part:?}"));
        (name.to_owned(), value.to_owned())
    };
    let payload = (payload != "-").then(|| bytes(&payload));
    Routed { topic, key, payload, headers: parts.map(pair).collect() }
}

fn bytes(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(text.get(at..at + 2).unwrap_or("?"), 16);
    let bytes: Result<Vec<_>, _> = (0..text.len()).step_by(2).map(byte).collect();
    bytes.unwrap_or_else(|_| panic!("Debezium routed something that is no bytes: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::Major;

    #[tokio::test]
    async fn what_commits_is_routed_also_after_a_kill() {
        let builder = Postgres::builder(Major::V15).setting("wal_level", "logical");
        let server = builder.start().await;
        server
            .run_sql(
                "CREATE TABLE plain (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                 aggregatetype text, aggregateid text, type text, payload bytea);
                 CREATE PUBLICATION outboxes FOR TABLE plain;",
            )
            .await;
        let insert = |id: &str, end: &str| {
            format!(
                "BEGIN; INSERT INTO plain (aggregatetype, aggregateid, type, payload)
                 VALUES ('order', '{id}', 'Placed', '\\x00ff'); {end};"
            )
        };
        let mut engine =
            Debezium::start(&server, "postgres", "public.plain", "outboxes", "one").await;
        server.run_sql(&insert("order-1", "COMMIT")).await;
        engine.until_routed(|routed| routed.len() == 1).await;
        engine.kill();
        server.run_sql(&insert("order-2", "ROLLBACK")).await;
        server.run_sql(&insert("order-3", "COMMIT")).await;
        engine.restart(&server).await;
        let is_third = |routed: &Routed| routed.key == "order-3";
        let routed = engine.until_routed(|routed| routed.last().is_some_and(is_third)).await;
        // What it had not noted before it was killed comes again, by the same id.
        let (third, before) = routed.split_last().unwrap();
        let first = &before[0];
        assert!(before.iter().all(|copy| copy.header("id") == first.header("id")), "{routed:?}");
        assert_eq!(first.key, "order-1");
        assert_eq!(third.topic, "outbox.event.order");
        assert_eq!(third.payload.as_deref(), Some(&[0, 0xff][..]));
        assert!(third.header("id").is_some_and(|id| id.len() == 36));
    }
}
