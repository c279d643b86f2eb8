//! Starting the server on a data folder, and seeing when it answers.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use crate::servers::{Process, patience::until, user};

/// All it takes to start a server.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// The program `postgres`.
    pub(super) program: PathBuf,
    /// Holds the data folder `data`, the socket and the log.
    pub(super) folder: PathBuf,
    pub(super) port: u16,
    pub(super) environment: Vec<(String, String)>,
}

impl Launch {
    /// Adds settings to the file that the server reads at its start.
    pub(super) fn configure<'a>(&self, settings: impl Iterator<Item = (&'a str, &'a str)>) {
        let file = self.data().join("postgresql.conf");
        let mut file = File::options().append(true).open(file).expect("initdb made the file");
        for (name, value) in settings {
            let value = value.replace('\'', "''");
            writeln!(file, "{name} = '{value}'").expect("settings can be written");
        }
    }

    /// Starts the server and waits until it answers, or says why it does not.
    pub(super) fn start(&self) -> Result<Process, String> {
        let log = self.folder.join("log");
        let log = File::options().create(true).append(true).open(log).expect("a log can be opened");
        let errors = log.try_clone().expect("a file can be opened twice");
        // Its variables are set for the server alone, not for what changes the user: a library that it
        // is to load would leave things of root's behind.
        let (program, first) = user::words(Path::new("/usr/bin/env"));
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let mut process = Process::start(program, |command| {
            user::plain_environment(command);
            command
                .args(first)
                .args(variables)
                .arg(&self.program)
                .arg("-D")
                .arg(self.data())
                .args(["-p", &self.port.to_string()]);
            command.current_dir(&self.folder).stdout(log).stderr(errors);
        });
        let mut ended = None;
        let answers = until(|| {
            ended = process.ended();
            ended.is_some() || self.answers(process.id())
        });
        if let Some(status) = ended {
            return Err(format!("PostgreSQL ended: {status}\n{}", self.log()));
        }
        if !answers {
            return Err(format!("PostgreSQL does not answer\n{}", self.log()));
        }
        Ok(process)
    }

    /// Shuts the server down by a signal and waits until it is gone.
    pub(super) fn stop(process: &mut Process, signal: &str) {
        process.signal(signal);
        assert!(until(|| process.ended().is_some()), "PostgreSQL does not shut down");
    }

    /// What the server has logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The server itself notes, in the file that locks its data, who it is and how far it is.
    fn answers(&self, id: u32) -> bool {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = file.lines();
        let is_this_one = lines.next() == Some(id.to_string().as_str());
        is_this_one && matches!(lines.nth(6).map(str::trim), Some("ready" | "standby"))
    }
}
