//! Data folders that are made once, kept beside the tools, and copied for each server.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    scratch::{Medium, Scratch},
    tools,
};

/// Makes a data folder that nobody has used, below `scratch`: a copy of one that is never started, which
/// `make` fills for whichever test comes first.
pub(super) fn fresh_data(name: &str, scratch: &Path, make: impl FnOnce(&Path)) {
    copy(&template(name, make), &scratch.join("data"));
}

fn template(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let kept = tools().kept("templates");
    let template = kept.join(name);
    let lock = File::create(kept.join(format!("{name}.lock"))).expect("a lock file can be made");
    lock.lock().expect("a file can be locked");
    if !template.exists() {
        let scratch = Scratch::new("template", Medium::Memory);
        let data = scratch.path().join("data");
        make(&data);
        let partial = kept.join(format!("{name}.partial"));
        drop(fs::remove_dir_all(&partial));
        copy(&data, &partial);
        fs::rename(&partial, &template).expect("a finished template gets its name");
    }
    template
}

/// Copies a folder with its owners, sharing blocks where the file system can.
fn copy(from: &Path, to: &Path) {
    // What is in the folder: it may be there already, as a disk of its own.
    let from = from.join(".");
    run(Command::new("cp").args(["--archive", "--reflink=auto"]).args([from.as_path(), to]));
}

/// Runs a command to its end and returns what it printed.
pub(super) fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
