//! How a server is configured and started.

use std::{
    fmt::Write as _,
    fs::{self, File},
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use super::super::{Process, patience::until, user};
use super::talk::talk;

/// What every server is told, before what the test tells it.
const SETTINGS: &[(&str, &str)] = &[
    ("bind", "127.0.0.1"),
    ("protected-mode", "no"),
    ("daemonize", "no"),
    ("save", "\"\""),
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("maxmemory-policy", "noeviction"),
    // Else the first copy to a replica waits for five seconds.
    ("repl-diskless-sync-delay", "0"),
];

/// How long each key takes to be loaded, in microseconds, and how often questions are answered meanwhile, in bytes.
const SLOWLY: &[&str] =
    &["--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024"];

/// How a server is started, again and again.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) folder: PathBuf,
    /// Where it keeps what it was told.
    pub(super) data: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    pub(super) program: PathBuf,
    pub(super) port: u16,
}

impl Launch {
    /// Writes the settings, which the server itself may write anew later.
    pub(super) fn configure(&self, settings: &[(String, String)]) {
        let own = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.write(SETTINGS.iter().copied().chain(own));
    }

    /// Writes these settings alone.
    pub(super) fn write<'a>(&self, settings: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut text = format!("port {}\ndir {}\n", self.port, self.data.display());
        for (name, value) in settings {
            writeln!(text, "{name} {value}").expect("a string grows");
        }
        let path = self.folder.join("server.conf");
        fs::write(&path, text).expect("settings can be written");
        user::give(&path);
    }

    /// Starts it and waits until it serves.
    pub(super) fn start(&self, more: &[&str]) -> Result<Process, String> {
        self.start_until(more, |said| said == "PONG")
    }

    /// Starts it on data that it loads slowly, and waits until it says that it loads.
    pub(super) fn start_loading(&self) -> Result<Process, String> {
        self.start_until(SLOWLY, |said| said.starts_with("LOADING"))
    }

    fn start_until(
        &self,
        more: &[&str],
        is_answer: impl Fn(&str) -> bool,
    ) -> Result<Process, String> {
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a log can be opened");
        // Only the server meets the variables: what a library that they name makes for the one who changes
        // the user would be root's, and shut to the server.
        let (program, first) = user::words(Path::new("/usr/bin/env"));
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let mut process = Process::start(program, |command| {
            user::plain_environment(command);
            command.args(first).args(variables).arg(&self.program);
            command.arg(self.folder.join("server.conf")).args(more);
            command.current_dir(&self.folder).stdout(log);
        });
        let mut ended = None;
        let address = (Ipv4Addr::LOCALHOST, self.port).into();
        let serves = until(|| {
            ended = process.ended();
            ended.is_some() || talk(address, &["PING"]).is_ok_and(|said| is_answer(&said))
        });
        match (ended, serves) {
            (None, true) => Ok(process),
            (None, false) => Err(format!("the server does not serve\n{}", self.log())),
            (Some(status), _) => Err(format!("the server ended: {status}\n{}", self.log())),
        }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}
