//! A message that is handed to a program: its headers as variables, its body on the standard input.

use std::{path::PathBuf, process::Stdio};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, copy, sink},
    process::{Child, Command},
};

use super::exchange::{Answer, Got, How, Request};

/// The exit code that refuses a message for good: `EX_DATAERR` of sysexits.
const REFUSED: i32 = 65;

/// How much of what it says is kept.
const SAID_BYTES_MAX: u64 = 16 * 1024;

/// A program that takes one message at a time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Program {
    /// The program and its arguments.
    pub start: Vec<String>,
    /// Where it runs; unless said, where the drill runs.
    pub folder: Option<PathBuf>,
}

impl Program {
    /// Runs the program for one message. Its exit is told as an answer: 0 as 200, 65 as 422, any other as
    /// 500, with what it said.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the program with all that it started.
    pub async fn send(&self, message: &Request, how: How) -> Got {
        let mut running = match self.spawn(message) {
            Ok(running) => running,
            Err(error) => {
                let program = self.start.first().map_or("nothing", String::as_str);
                return Got::Broken(format!("`{program}` does not start: {error}"));
            }
        };
        // A program that does not read its input has it all the same: the pipe breaks, and that is all.
        if let Some(mut input) = running.0.stdin.take() {
            drop(input.write_all(&message.body).await);
        }
        if how == How::HangUp {
            return Got::HungUp;
        }
        match running.answer().await {
            Err(error) => Got::Broken(error.to_string()),
            Ok(answer) if how == How::Swallow => Got::Swallowed(answer),
            Ok(answer) => Got::Answer(answer),
        }
    }

    fn spawn(&self, message: &Request) -> std::io::Result<Running> {
        let (program, arguments) = self.start.split_first().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "the plan names no program")
        })?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).kill_on_drop(true);
        command.envs(message.headers.iter().map(|(name, value)| (variable(name), value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.spawn().map(Running)
    }
}

/// The variable that holds a header: `CE_ID` for `ce-id`.
pub(crate) fn variable(header: &str) -> String {
    header.to_ascii_uppercase().replace('-', "_")
}

/// A program at work. Dropping it kills it with all that it started.
struct Running(Child);

impl Running {
    async fn answer(&mut self) -> std::io::Result<Answer> {
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        let (mut said, mut wrong) = (Vec::new(), Vec::new());
        let (ended, (), ()) =
            tokio::join!(self.0.wait(), start_of(out, &mut said), start_of(err, &mut wrong));
        let ended = ended?;
        let status = match ended.code() {
            Some(0) => 200,
            Some(REFUSED) => 422,
            _ => 500,
        };
        said.extend(wrong);
        let headers = vec![("ended".to_owned(), ended.to_string())];
        Ok(Answer { status, headers, body: Bytes::from(said) })
    }
}

/// Keeps the start of what is said, and reads the rest so that nobody waits for a reader.
async fn start_of(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(from) = from else { return };
    let mut start = from.take(SAID_BYTES_MAX);
    // What broke off is shown as far as it came.
    if start.read_to_end(kept).await.is_ok() {
        drop(copy(&mut start.into_inner(), &mut sink()).await);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = self.0.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(group) = group {
            // It fails only if nobody of the group is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
