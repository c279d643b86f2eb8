//! Folders of servers: whatever runs in one ends with the test, and the folder with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{patience::until, process, user};

/// Waits until the test is gone or has done with the folder, whichever way; then ends everything
/// that runs in it, frees what a killed PostgreSQL left in the kernel, takes off the disks that were
/// mounted in it, and removes it unless it is to be kept.
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
while read -r _ mount _; do
    case "$mount" in "$1"/*) umount -l -- "$mount" ;; esac
done </proc/mounts
[ "$2" = keep ] || rm -rf -- "$1"
"#;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// What a folder lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// What survives a power cut.
    Disk,
    /// Memory if there is enough of it: files are made there in no time.
    Memory,
}

/// A folder that the user of the servers owns. When it is dropped, or its process is gone, whatever
/// runs in it ends, and it is removed.
///
/// A server may give its children process groups and sessions of their own, and a killed one leaves
/// them to nobody: what tells that a process belongs here is that it works inside the folder.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    guardian: Child,
}

impl Scratch {
    /// Makes a folder with this word in its name.
    ///
    /// # Panics
    ///
    /// Panics if there is no folder that may hold it.
    #[must_use]
    pub fn new(name: &str, medium: Medium) -> Self {
        let path = fresh_folder(name, medium);
        user::give(&path);
        Self::guarded(path, "remove")
    }

    /// Uses a folder of the caller's, which stays; what runs in it ends all the same.
    ///
    /// # Errors
    ///
    /// Fails if it is not there and cannot be made.
    pub fn kept(path: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(path)?;
        // Processes are known by their real folder.
        Ok(Self::guarded(path.canonicalize()?, "keep"))
    }

    fn guarded(path: PathBuf, then: &str) -> Self {
        let mut guardian = Command::new("/bin/sh");
        guardian.args(["-c", GUARDIAN, "guardian"]).arg(&path).arg(then).current_dir("/");
        guardian.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guardian = process::spawn_alone(guardian).expect("a shell starts");
        Self { path, guardian }
    }

    /// Returns where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Kills whatever runs in the folder, and waits until nothing does.
    pub(super) fn kill_all(&self) {
        self.signal_until("KILL", |_| true);
    }

    /// Stops whatever runs in the folder, in the middle of what it does.
    pub(super) fn stop_all(&self) {
        self.signal_until("STOP", |pid| !process::is_frozen(pid));
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
                // Some may be gone meanwhile: they are looked for again.
                process::send(signal, wrong.iter().map(u32::to_string));
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

/// Where a server may keep its data: its user must be let in, and a socket's name be short enough.
fn base(medium: Medium) -> PathBuf {
    const SOCKET_PATH_MAX: usize = 60;
    let memory = (medium == Medium::Memory && memory_is_roomy()).then(|| MEMORY.into());
    let choices =
        [memory, Some(std::env::temp_dir()), Some("/tmp".into()), Some("/var/tmp".into())];
    let fits =
        |folder: &PathBuf| folder.as_os_str().len() < SOCKET_PATH_MAX && user::may_enter(folder);
    // Processes are known by their real folder.
    let mut real = choices.into_iter().flatten().filter_map(|folder| folder.canonicalize().ok());
    real.find(fits).expect("there is a temporary folder")
}

/// A container may have next to nothing there.
fn memory_is_roomy() -> bool {
    const KIB_MIN: u64 = 4 << 20;
    static ROOMY: OnceLock<bool> = OnceLock::new();
    *ROOMY.get_or_init(|| {
        let free = Command::new("df").args(["--output=avail", MEMORY]).output();
        let free = free.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let free = free.unwrap_or_default();
        free.lines()
            .nth(1)
            .and_then(|kib| kib.trim().parse().ok())
            .is_some_and(|kib: u64| kib >= KIB_MIN)
    })
}

fn fresh_folder(name: &str, medium: Medium) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = base(medium);
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
pub(super) fn inside(folder: &Path) -> Vec<u32> {
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
