//! A session that stays open, for what one connection does while another does something else.

use std::{
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, Stdio},
    thread,
};

use tokio::sync::mpsc;

use super::{Postgres, sql};
use crate::servers::Process;

/// What psql says when it has said all.
const END: &str = "--- all was said ---";

/// An open session of psql; it ends when dropped.
#[derive(Debug)]
pub struct Session {
    input: ChildStdin,
    output: mpsc::UnboundedReceiver<String>,
    process: Process,
}

impl Postgres {
    /// Opens a session at a URL, which may lead through a pooler or a proxy.
    ///
    /// # Panics
    ///
    /// Panics if psql does not start. That it cannot connect shows at its first answer.
    #[must_use]
    pub fn session(&self, url: &str) -> Session {
        let mut process = Process::start(self.major().program("psql"), |command| {
            sql::configure(command, url);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        });
        let (input, output) = process.pipes();
        let (heard, hears) = mpsc::unbounded_channel();
        // Ends with psql.
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|line| heard.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Session { input, output: hears, process }
    }
}

impl Session {
    /// Returns the process of this client.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Says statements and waits for no answer.
    ///
    /// # Panics
    ///
    /// Panics if psql is gone.
    pub fn say(&mut self, statements: &str) {
        let text = format!("{statements}\n\\echo {END}\n");
        self.input.write_all(text.as_bytes()).expect("psql listens");
    }

    /// Waits for the rows of what was said last: a line each.
    ///
    /// # Panics
    ///
    /// Panics if a statement failed, or the connection is gone.
    pub async fn hear(&mut self) -> String {
        self.try_hear().await.expect("psql answers")
    }

    /// Waits for the rows of what was said last; nothing if a statement failed or the connection is
    /// gone, which ends the session.
    pub async fn try_hear(&mut self) -> Option<String> {
        let mut rows = Vec::new();
        loop {
            match self.output.recv().await? {
                end if end == END => return Some(rows.join("\n")),
                row => rows.push(row),
            }
        }
    }

    /// Says statements and returns their rows.
    ///
    /// # Panics
    ///
    /// Panics if a statement fails, or the connection is gone.
    pub async fn ask(&mut self, statements: &str) -> String {
        self.say(statements);
        self.hear().await
    }
}
