//! Folders of servers: whatever runs in one ends with the test, and the folder with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{patience::until, process, user};

/// Waits until the test is gone or has done with the folder, whichever way; then ends everything
/// that runs in it, frees what a killed PostgreSQL left in the kernel, and removes it.
const GUARDIAN: &str = r#"
cat >/dev/null
inside() {
    find /proc -mindepth 2 -maxdepth 2 -name cwd \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null |
        cut -d/ -f3
}
while pids=$(inside "$1") && [ -n "$pids" ]; do
    kill -KILL $pids 2>/dev/null
done
for file in "$1"/*/postmaster.pid; do
    segment=$(sed -n '7s/.* //p' "$file" 2>/dev/null)
    [ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
done
rm -rf -- "$1"
"#;

/// A folder that the user of the servers owns.
///
/// A server may give its children process groups and sessions of their own, and a killed one leaves
/// them to nobody: what tells that a process belongs here is that it works inside the folder.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    guardian: Child,
}

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let path = fresh_folder(name);
        user::give(&path);
        let mut guardian = Command::new("/bin/sh");
        guardian.args(["-c", GUARDIAN, "guardian"]).arg(&path).current_dir("/");
        guardian.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guardian = process::spawn_alone(guardian).expect("a shell starts");
        Self { path, guardian }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Kills whatever runs in the folder, and waits until nothing does.
    pub(super) fn kill_all(&self) {
        self.signal_until("KILL", |_| true);
    }

    /// Stops whatever runs in the folder, in the middle of what it does.
    pub(super) fn stop_all(&self) {
        self.signal_until("STOP", |pid| !is_stopped(pid));
    }

    /// Lets go on what was stopped.
    pub(super) fn continue_all(&self) {
        self.signal_until("CONT", is_stopped);
    }

    /// Signals until no process is as it should not be.
    fn signal_until(&self, signal: &str, is_wrong: impl Fn(u32) -> bool) {
        let done = until(|| {
            let mut wrong = inside(&self.path);
            wrong.retain(|pid| is_wrong(*pid));
            if !wrong.is_empty() {
                send(signal, &wrong);
            }
            wrong.is_empty()
        });
        assert!(done, "{:?} do not heed {signal}", inside(&self.path));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        drop(self.guardian.wait());
    }
}

/// Where servers keep their data: it must let their user in, and leave room for a socket's name.
fn base() -> PathBuf {
    const SOCKET_PATH_MAX: usize = 60;
    let given = std::env::temp_dir();
    let mut choices = [given, "/tmp".into(), "/var/tmp".into()].into_iter();
    let fits =
        |folder: &PathBuf| folder.as_os_str().len() < SOCKET_PATH_MAX && user::may_enter(folder);
    let real = |folder: PathBuf| folder.canonicalize().ok();
    choices.by_ref().filter_map(real).find(fits).expect("there is a temporary folder")
}

fn fresh_folder(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = base();
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("semel-{name}-{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => return path,
            // A process of the same number was here before.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{} cannot be made: {error}", path.display()),
        }
    }
}

/// The processes that work in a folder, but for those that are dead already.
fn inside(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("processes are listed").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let works_there = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(folder))
    };
    pids.filter(works_there).collect()
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
}

fn send(signal: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    // Some may be gone meanwhile: the caller looks again.
    let sent = Command::new("kill").args(["-s", signal, "--"]).args(pids).output();
    drop(sent.expect("a signal can be sent"));
}
