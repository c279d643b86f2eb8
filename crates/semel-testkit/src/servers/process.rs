//! Child processes that cannot outlive the test.

use std::{
    fmt, fs, io,
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus},
    sync::{OnceLock, mpsc},
    thread,
    time::Duration,
};

use tokio::{net::TcpStream, time::Instant};

use super::patience::until;

/// How often a condition is looked at that nothing tells of.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Says why a process did not come to listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessError {
    /// It ended.
    Ended(ExitStatus),
    /// It still runs, and does not listen in time.
    Late(Duration),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(status) => write!(f, "the process ended: {status}"),
            Self::Late(patience) => write!(f, "the process does not listen after {patience:?}"),
        }
    }
}

impl std::error::Error for ProcessError {}

/// A process in a group of its own. Dropping it kills the whole group; if the test itself is killed,
/// the kernel kills the process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    ended: bool,
}

impl Process {
    /// Starts a program; `with` sets its arguments, folder, environment and streams.
    #[must_use]
    pub fn start(program: impl AsRef<Path>, with: impl FnOnce(&mut Command)) -> Self {
        // It is `setpriv` that asks the kernel: a call of our own would be unsafe code.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program.as_ref());
        with(&mut command);
        let child = spawn_alone(command);
        let child = child.unwrap_or_else(|error| {
            panic!("{} does not start: {error}", program.as_ref().display())
        });
        Self { child, ended: false }
    }

    /// Returns its id, which is that of its group too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes its input and its output, which must be pipes.
    pub(super) fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.expect("the process was given pipes, and they are taken once")
    }

    /// Takes what it says of its errors, which must be a pipe.
    pub(super) fn errors(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("the process was given a pipe, and it is taken once")
    }

    /// Says how it ended, or that it still runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().expect("a child can be waited for");
        self.ended |= ended.is_some();
        ended
    }

    /// Sends a signal, such as `TERM` or `STOP`, to the whole group.
    pub fn signal(&self, name: &str) {
        send(name, [format!("-{}", self.id())]);
    }

    /// Freezes the whole group, and waits until no thread of the process can go on: one that is in the
    /// kernel stops there. It says nothing more to anybody until it is sent `CONT`.
    ///
    /// # Panics
    ///
    /// Panics if it does not stop.
    pub fn freeze(&self) {
        self.signal("STOP");
        assert!(until(|| is_frozen(self.id())), "process {} does not stop", self.id());
    }

    /// Kills the whole group as a power cut does, and waits until the process is gone.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            self.signal("KILL");
            drop(self.child.wait());
            self.ended = true;
        }
    }

    /// Waits until it ends.
    ///
    /// # Errors
    ///
    /// Fails if it still runs after `patience`.
    pub async fn until_ended(&mut self, patience: Duration) -> Result<ExitStatus, ProcessError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(ProcessError::Late(patience));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until something listens on an address.
    ///
    /// # Errors
    ///
    /// Fails if the process ends, or nothing listens after `patience`.
    pub async fn until_it_listens(
        &mut self,
        address: SocketAddr,
        patience: Duration,
    ) -> Result<(), ProcessError> {
        let deadline = Instant::now() + patience;
        while TcpStream::connect(address).await.is_err() {
            if let Some(status) = self.ended() {
                return Err(ProcessError::Ended(status));
            }
            if Instant::now() > deadline {
                return Err(ProcessError::Late(patience));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// Sends a signal to processes, and to groups by their negative number. Who is gone is no error.
pub(super) fn send(signal: &str, targets: impl IntoIterator<Item = String>) {
    // The shell's own `kill`: the program is a package that small machines lack.
    let mut kill = Command::new("/bin/sh");
    kill.args(["-c", r#"kill -s "$0" -- "$@""#, signal]).args(targets);
    drop(kill.output().expect("a signal can be sent"));
}

/// Says whether no thread of a process runs: each was stopped, or waits in the kernel for a disk and is
/// stopped before it comes back.
pub(super) fn is_frozen(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let mut stats =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.all(|stat| {
        let state = stat.rsplit(") ").next().unwrap_or_default();
        state.starts_with(['T', 't', 'D', 'Z', 'X'])
    })
}

/// Starts a process in a group of its own.
///
/// The kernel ends a process with the *thread* that started it, and a test's thread may end long
/// before a server that tests share: all are started by one thread that lives as long as the tests.
pub(super) fn spawn_alone(mut command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        let start = move || {
            for (mut command, answer) in taken {
                drop(answer.send(command.spawn()));
            }
        };
        let thread = thread::Builder::new().name("starter of processes".to_owned());
        thread.spawn(start).expect("a thread starts");
        orders
    });
    command.process_group(0);
    let (answer, started) = mpsc::channel();
    starter.send((command, answer)).expect("the starter lives as long as the process");
    started.recv().expect("the starter answers every order")
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        process::Stdio,
    };

    use super::*;

    /// A shell with a grandchild, whose id it prints.
    fn family() -> (Process, String) {
        let mut process = Process::start("/bin/sh", |command| {
            command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        });
        let mut line = String::new();
        let output = process.child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        (process, line.trim().to_owned())
    }

    fn lives(id: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat"));
        state.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
    }

    async fn until_gone(id: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while lives(id) {
            assert!(Instant::now() < deadline, "process {id} lives on");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    #[tokio::test]
    async fn a_dropped_process_takes_its_children_along() {
        let (process, grandchild) = family();
        let child = process.id().to_string();
        assert!(lives(&child) && lives(&grandchild));
        drop(process);
        until_gone(&child).await;
        until_gone(&grandchild).await;
    }

    #[test]
    fn a_frozen_process_says_nothing_until_it_may_go_on() {
        let mut process = Process::start("/bin/cat", |command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        });
        let (mut input, output) = process.pipes();
        let mut lines = BufReader::new(output).lines();
        let mut echo = |word: &str| {
            input.write_all(word.as_bytes()).unwrap();
        };
        echo("before\n");
        assert_eq!(lines.next().unwrap().unwrap(), "before");
        process.freeze();
        assert!(is_frozen(process.id()));
        echo("after\n");
        assert!(is_frozen(process.id()));
        process.signal("CONT");
        assert_eq!(lines.next().unwrap().unwrap(), "after");
    }

    #[test]
    fn a_process_outlives_the_thread_that_started_it() {
        let (mut process, grandchild) = thread::spawn(family).join().unwrap();
        assert!(process.ended().is_none());
        assert!(lives(&grandchild));
    }

    #[tokio::test]
    async fn a_process_that_ends_is_told_from_one_that_is_late() {
        let nobody = SocketAddr::from(([127, 0, 0, 1], super::super::free_port()));
        let mut ends = Process::start("/bin/true", |_| {});
        let error = ends.until_it_listens(nobody, Duration::from_secs(20)).await.unwrap_err();
        assert!(matches!(error, ProcessError::Ended(status) if status.success()));
        let mut waits = Process::start("/bin/cat", |command| {
            command.stdin(Stdio::piped());
        });
        let error = waits.until_it_listens(nobody, Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, ProcessError::Late(_)));
        assert!(waits.until_ended(Duration::ZERO).await.is_err());
    }
}
