//! A session that stays open, for what one connection does while another does something else.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{ChildStdin, Stdio},
    thread,
};

use tokio::sync::{mpsc, oneshot};

use super::{Postgres, sql};
use crate::servers::Process;

/// What psql says when it has said all.
const END: &str = "--- all was said ---";

/// An open session of psql; it ends when dropped.
#[derive(Debug)]
pub struct Session {
    input: ChildStdin,
    output: mpsc::UnboundedReceiver<String>,
    errors: oneshot::Receiver<String>,
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
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        });
        let ((input, output), mut errors) = (process.pipes(), process.errors());
        let (heard, hears) = mpsc::unbounded_channel();
        let (failed, fails) = oneshot::channel();
        // Both end with psql.
        thread::spawn(move || {
            let mut text = String::new();
            // What is no text is still an end.
            let _ = errors.read_to_string(&mut text);
            let _ = failed.send(text);
        });
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|line| heard.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Session { input, output: hears, errors: fails, process }
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
    /// That psql is gone meanwhile shows at its answer.
    pub fn say(&mut self, statements: &str) {
        let text = format!("{statements}\n\\echo {END}\n");
        let _ = self.input.write_all(text.as_bytes());
    }

    /// Waits for the rows of what was said last: a line each.
    ///
    /// # Panics
    ///
    /// Panics if a statement failed, or the connection is gone.
    pub async fn hear(&mut self) -> String {
        self.try_hear().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits for the rows of what was said last.
    ///
    /// # Errors
    ///
    /// Fails with the words of psql if a statement fails or the connection is lost. That ends the
    /// session; whoever asks again hears nothing new.
    pub async fn try_hear(&mut self) -> Result<String, String> {
        let mut rows = Vec::new();
        while let Some(row) = self.output.recv().await {
            if row == END {
                return Ok(rows.join("\n"));
            }
            rows.push(row);
        }
        let errors = if self.errors.is_terminated() { None } else { (&mut self.errors).await.ok() };
        Err(errors.unwrap_or_else(|| "the session has ended".to_owned()))
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
