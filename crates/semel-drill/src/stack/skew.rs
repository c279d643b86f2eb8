//! A clock that jumps: libfaketime between a process and its clock.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{settings::Settings, trouble::Trouble};

/// Where the library keeps what its processes share, and what it calls it; who is killed leaves it.
const SHARED: &str = "/dev/shm";
const SHARED_NAMES: [&str; 2] = ["faketime_shm_", "sem.faketime_sem_"];

/// Where Debian's package puts the library.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

/// Says where the library lies.
///
/// # Errors
///
/// Fails with the one sentence that says how it is installed.
pub(super) fn library() -> Result<&'static Path, String> {
    let found = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
    found.ok_or_else(|| "libfaketime is not installed: run `apt-get install faketime`".to_owned())
}

/// The clock of one process, or of several.
#[derive(Clone, Debug)]
pub(super) struct Skew {
    library: &'static Path,
    offset: PathBuf,
}

impl Skew {
    /// Makes a clock that is right so far; its offset stands in a file.
    pub(super) fn new(offset: PathBuf) -> io::Result<Self> {
        let library = library().map_err(io::Error::other)?;
        let skew = Self { library, offset };
        skew.set(0)?;
        Ok(skew)
    }

    /// Makes the clock that the servers of a store share, where it is to jump.
    pub(super) fn of_server(settings: &Settings, folder: &Path) -> io::Result<Option<Self>> {
        let wanted = settings.has(Trouble::Skew);
        wanted.then(|| Self::new(folder.join("clock"))).transpose()
    }

    /// Sets the clock ahead by so many seconds, or behind.
    pub(super) fn set(&self, seconds: i64) -> io::Result<()> {
        // At once: whoever read half an offset would have another clock.
        let fresh = self.offset.with_extension("new");
        fs::write(&fresh, format!("{seconds:+}\n"))?;
        fs::rename(fresh, &self.offset)
    }

    /// Returns what puts this clock before a process.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            ("LD_PRELOAD", text(self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.offset)),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// What the library's processes leave behind. Dropping it removes what is new and nobody's any more.
#[derive(Debug)]
pub(super) struct Litter {
    before: BTreeSet<String>,
}

impl Litter {
    /// Looks at what is there already.
    pub(super) fn watch() -> Self {
        Self { before: litter().map(|(name, _)| name).collect() }
    }
}

impl Drop for Litter {
    fn drop(&mut self) {
        let is_dead = |process: &str| !Path::new("/proc").join(process).exists();
        for (name, process) in litter().filter(|(name, _)| !self.before.contains(name)) {
            if is_dead(&process) {
                drop(fs::remove_file(Path::new(SHARED).join(name)));
            }
        }
    }
}

/// What lies there by name, each with the process that made it.
fn litter() -> impl Iterator<Item = (String, String)> {
    let entries = fs::read_dir(SHARED).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| {
        let process = SHARED_NAMES.iter().find_map(|known| name.strip_prefix(known))?.to_owned();
        Some((name, process))
    })
}
