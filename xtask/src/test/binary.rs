//! The binaries that cargo builds of the tests, and one run of each.

use std::{
    fmt,
    fs::{self, File},
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Artifact, Message};

use crate::shell;

/// The tests of one target of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binary {
    /// The package whose tests they are.
    pub(super) package: String,
    target: String,
    program: PathBuf,
    folder: PathBuf,
}

/// What a binary said, and how it ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) said: String,
    pub(super) ended_well: bool,
    pub(super) took: Duration,
}

impl Binary {
    /// Builds what `test`, a `cargo test`, would run, and returns it in a fixed order.
    pub(super) fn build(mut test: Command) -> Result<Vec<Self>> {
        test.args(["--no-run", "--message-format", "json-render-diagnostics"]);
        let output = test.stderr(Stdio::inherit()).output().context("cannot start cargo test")?;
        let messages = Message::parse_stream(&*output.stdout);
        let mut built = Vec::new();
        for message in messages {
            if let Message::CompilerArtifact(artifact) = message.context("cannot read cargo")? {
                built.extend(Self::of(artifact));
            }
        }
        ensure!(output.status.success(), "the tests do not build");
        built.sort();
        Ok(built)
    }

    fn of(artifact: Artifact) -> Option<Self> {
        let program = artifact.executable.filter(|_| artifact.profile.test)?;
        let folder = artifact.manifest_path.parent()?;
        Some(Self {
            package: folder.file_name()?.to_owned(),
            target: artifact.target.name,
            program: program.into(),
            folder: folder.into(),
        })
    }

    /// Runs it as cargo does, at a niceness, with `words`, and keeps whatever it says in a file of its own below
    /// `log`.
    pub(super) fn run(&self, nice: &str, words: &[String], log: &Path) -> Result<Ran> {
        let path = log.join(format!("{}.{}.txt", self.package, self.target));
        // A file, no pipe: a server that outlives its test does not hold up the run. A new one, and read as it was
        // opened: another run beside this one has its own.
        drop(fs::remove_file(&path));
        let mut options = File::options();
        let file = options.read(true).append(true).create_new(true).open(&path);
        let mut file = file.with_context(|| format!("cannot make {}", path.display()))?;
        let mut test = shell::command("nice", &["-n", nice]);
        test.arg(&self.program)
            .args(words)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        let twice = || file.try_clone().context("cannot open a file twice");
        test.stdout(twice()?).stderr(twice()?);
        let start = Instant::now();
        let status = test.status().with_context(|| format!("cannot start the tests of {self}"))?;
        let mut said = Vec::new();
        file.rewind().context("cannot read what was said")?;
        file.read_to_end(&mut said).context("cannot read what was said")?;
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok(Ran { said, ended_well: status.success(), took: start.elapsed() })
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.target)
    }
}
