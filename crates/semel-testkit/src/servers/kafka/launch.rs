//! Starting the broker on a data folder, and seeing when it serves.

use std::{
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::servers::{Process, patience::until, template, tools, user};

/// What the broker says when it serves.
const SERVES: &str = "Kafka Server started";
/// The name of every cluster: each has one node, and none knows another.
const CLUSTER: &str = "SemelTestClusterAAAAAA";

/// What every broker is told, before what the test tells it.
const SETTINGS: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "BROKER"),
    ("listener.security.protocol.map", "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("auto.create.topics.enable", "false"),
    // One node has no replicas.
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    // What is not needed is not made: a start takes seconds of the processor already.
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("num.network.threads", "2"),
    ("num.io.threads", "3"),
    ("background.threads", "2"),
    ("log.index.size.max.bytes", "1048576"),
    ("log.cleaner.enable", "false"),
    // Groups form, and forget who is dead, within a test's patience.
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "1000"),
    // A broker that was killed is let in again once the controller has given its old self up.
    ("broker.session.timeout.ms", "2000"),
    ("broker.heartbeat.interval.ms", "300"),
    ("controller.quorum.election.timeout.ms", "300"),
    ("controlled.shutdown.enable", "false"),
];

/// What is logged: little, and when the broker serves.
const LOGGING: [&str; 2] = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
];

/// All it takes to start a broker.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// Holds the data folder `data`, the settings and the log.
    pub(super) folder: PathBuf,
    pub(super) java: Vec<String>,
    pub(super) port: u16,
}

impl Launch {
    /// Writes the settings that the broker reads at its start; the last word of each counts.
    pub(super) fn configure(&self, own: &[(String, String)], controller: u16) {
        let mut text = properties(&self.folder.join("data"), self.port, controller);
        for (name, value) in own {
            writeln!(text, "{name}={value}").expect("a string grows");
        }
        fs::write(self.folder.join("server.properties"), text).expect("settings can be written");
    }

    /// Starts the broker and waits until it serves, or says why it does not.
    pub(super) fn start(&self) -> Result<Process, String> {
        let before = self.log().len();
        let log = self.folder.join("log");
        let log = File::options().create(true).append(true).open(log).expect("a log can be opened");
        let errors = log.try_clone().expect("a file can be opened twice");
        let (program, first) = user::words(&tools().java());
        let mut process = Process::start(program, |command| {
            user::plain_environment(command);
            command
                .args(first)
                .args(&self.java)
                .args(LOGGING)
                .arg("-cp")
                .arg(tools().jars("kafka"));
            command.args(["kafka.Kafka", "server.properties"]);
            command.current_dir(&self.folder).stdout(log).stderr(errors);
        });
        let mut ended = None;
        let serves = until(|| {
            ended = process.ended();
            ended.is_some() || self.log().get(before..).is_some_and(|new| new.contains(SERVES))
        });
        match ended {
            Some(status) => Err(format!("Kafka ended: {status}\n{}", self.log())),
            None if !serves => Err(format!("Kafka does not serve\n{}", self.log())),
            None => Ok(process),
        }
    }

    /// Shuts the broker down by a signal and waits until it is gone.
    pub(super) fn stop(process: &mut Process) {
        process.signal("TERM");
        assert!(until(|| process.ended().is_some()), "Kafka does not shut down");
    }

    /// What the broker has logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

/// Makes a data folder that nobody has used, below `scratch`. Kafka's own tool takes as long for it as the
/// broker takes to start.
pub(super) fn fresh_data(scratch: &Path) {
    let name = format!("kafka-{}-{}", version(), user::server_uid());
    template::fresh_data(&name, scratch, |data| {
        let settings = data.with_file_name("format");
        fs::write(&settings, properties(data, 1, 2)).expect("settings can be written");
        let mut format = user::command(&tools().java());
        format.arg("-cp").arg(tools().jars("kafka")).arg("kafka.tools.StorageTool");
        format.args(["format", "-t", CLUSTER, "-c"]).arg(&settings);
        template::run(&mut format);
    });
}

fn properties(data: &Path, port: u16, controller: u16) -> String {
    let mut text = format!(
        "log.dirs={}\n\
         listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=BROKER://127.0.0.1:{port}\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n",
        data.display()
    );
    for (name, value) in SETTINGS {
        writeln!(text, "{name}={value}").expect("a string grows");
    }
    text
}

fn version() -> String {
    let folder = tools().jars("kafka");
    let jars =
        fs::read_dir(folder.trim_end_matches('*')).expect("the jars can be listed").flatten();
    let names = jars.filter_map(|jar| jar.file_name().into_string().ok());
    let mut versions = names
        .filter_map(|name| Some(name.strip_prefix("kafka-clients-")?.strip_suffix(".jar")?.into()));
    versions.next().expect("Kafka's own client is among the jars")
}
