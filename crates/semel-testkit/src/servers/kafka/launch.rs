//! Starting the broker on a data folder, and seeing when it serves.

use std::{
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use crate::servers::{
    Process,
    patience::until,
    scratch::{Medium, Scratch},
    tools, user,
};

/// What the broker says when it serves.
const SERVES: &str = "Kafka Server started";
/// The name of every cluster: each has one node, and none knows another.
const CLUSTER: &str = "SemelTestClusterAAAAAA";
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
    pub(super) fn configure(&self, settings: &[(&str, &str)], controller: u16) {
        let (port, data) = (self.port, self.folder.join("data"));
        let mut text = properties(&data, port, controller);
        for (name, value) in settings {
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

/// Makes a data folder that nobody has used, below `scratch`.
pub(super) fn fresh_data(scratch: &Path) {
    let mut copy = Command::new("cp");
    copy.args(["--archive", "--reflink=auto"]).arg(template()).arg(scratch.join("data"));
    run(&mut copy);
}

/// A data folder that is never started, made by whichever test comes first: Kafka's own tool takes as long for it
/// as the broker takes to start.
fn template() -> PathBuf {
    let kept = tools().kept("templates");
    let name = format!("kafka-{}-{}", version(), user::server_uid());
    let template = kept.join(&name);
    let lock = File::create(kept.join(format!("{name}.lock"))).expect("a lock file can be made");
    lock.lock().expect("a file can be locked");
    if !template.exists() {
        let scratch = Scratch::new("kafka-format", Medium::Memory);
        let (data, settings) = (scratch.path().join("data"), scratch.path().join("format"));
        let roles = "process.roles=broker,controller\nnode.id=1\n\
                     controller.listener.names=CONTROLLER\ninter.broker.listener.name=BROKER\n\
                     listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT\n";
        fs::write(&settings, properties(&data, 1, 2) + roles).expect("settings can be written");
        let mut format = user::command(&tools().java());
        format.arg("-cp").arg(tools().jars("kafka")).arg("kafka.tools.StorageTool");
        format.args(["format", "-t", CLUSTER, "-c"]).arg(&settings);
        run(&mut format);
        let partial = kept.join(format!("{name}.partial"));
        drop(fs::remove_dir_all(&partial));
        run(Command::new("cp").arg("--archive").args([&data, &partial]));
        fs::rename(&partial, &template).expect("a finished template gets its name");
    }
    template
}

fn properties(data: &Path, port: u16, controller: u16) -> String {
    format!(
        "log.dirs={}\n\
         listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=BROKER://127.0.0.1:{port}\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n",
        data.display()
    )
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

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
}
