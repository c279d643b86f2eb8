//! The user that runs servers which refuse to be run by root.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Somebody who is not root.
#[derive(Debug)]
pub(super) struct User {
    uid: u32,
    gid: u32,
}

/// Returns whom servers run as: nobody else, unless the test runs as root.
pub(super) fn server_user() -> Option<&'static User> {
    static USER: OnceLock<Option<User>> = OnceLock::new();
    USER.get_or_init(|| (own_uid() == 0).then(|| postgres_or_nobody(&passwd()))).as_ref()
}

/// Returns the number of the user that servers run as.
pub(super) fn server_uid() -> u32 {
    server_user().map_or_else(own_uid, |user| user.uid)
}

/// Returns the words that start `program` as the user of the servers, the program's own to follow.
pub(super) fn words(program: &Path) -> (PathBuf, Vec<String>) {
    let Some(user) = server_user() else {
        return (program.to_owned(), Vec::new());
    };
    let program = program.to_str().expect("a server's path is UTF-8").to_owned();
    let ids = [format!("--reuid={}", user.uid), format!("--regid={}", user.gid)];
    // The wish to die with the parent does not survive a change of user: it is made again.
    let rest = ["--clear-groups", "--pdeathsig", "KILL", "--"].map(str::to_owned);
    (PathBuf::from("setpriv"), [&ids[..], &rest[..], &[program]].concat())
}

/// Returns a command as the user of the servers that sees nothing of the test's environment.
pub(super) fn command(program: &Path) -> Command {
    let (program, first) = words(program);
    let mut command = Command::new(program);
    command.args(first).current_dir("/");
    plain_environment(&mut command);
    command
}

/// Leaves of the environment only what does not depend on who runs the test.
pub(super) fn plain_environment(command: &mut Command) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC");
}

/// Gives a file or folder to the user of the servers.
pub(super) fn give(path: &Path) {
    if let Some(user) = server_user() {
        chown(path, Some(user.uid), Some(user.gid)).expect("root can give a folder away");
    }
}

/// Says whether the user of the servers may enter a folder.
pub(super) fn may_enter(folder: &Path) -> bool {
    const OTHERS_ENTER: u32 = 0o001;
    let lets_in = |folder: &Path| {
        fs::metadata(folder).is_ok_and(|folder| folder.mode() & OTHERS_ENTER == OTHERS_ENTER)
    };
    server_user().is_none() || folder.ancestors().all(lets_in)
}

/// Returns the number of the user that this process runs as.
pub(super) fn own_uid() -> u32 {
    fs::metadata("/proc/self").expect("a process sees itself").uid()
}

fn passwd() -> String {
    fs::read_to_string("/etc/passwd").expect("users are listed")
}

/// PostgreSQL wants a user that has a name; Debian's package brings one.
fn postgres_or_nobody(passwd: &str) -> User {
    let named = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        Some(User { uid: ids.next()?.ok()?, gid: ids.next()?.ok()? })
    };
    let user = named("postgres").or_else(|| named("nobody"));
    user.expect("there is a user postgres or nobody")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_is_preferred_to_nobody() {
        let nobody = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65533::/:/bin/false\n";
        let user = postgres_or_nobody(nobody);
        assert_eq!((user.uid, user.gid), (65534, 65533));
        let both = format!("{nobody}postgres:x:105:110:,,,:/var/lib/postgresql:/bin/bash\n");
        let user = postgres_or_nobody(&both);
        assert_eq!((user.uid, user.gid), (105, 110));
    }
}
