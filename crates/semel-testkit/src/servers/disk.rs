//! A disk whose power can be cut: what was not flushed to it is gone, as after a pulled plug.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::patience::until;

/// What makes and shuts down the file system.
const PROGRAMS: [&str; 4] = ["mkfs.xfs", "mount", "umount", "xfs_io"];

/// A file system in a file. Dropping it takes it off and removes the file.
///
/// It is xfs on a loop device, and the cut is the file system's own shutdown, which writes its
/// journal no more. Only root can mount one.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    mount: PathBuf,
}

impl Disk {
    /// Says whether this process can make one.
    ///
    /// # Errors
    ///
    /// Fails with the one sentence that says what is missing.
    pub fn usable() -> Result<(), String> {
        if super::user::own_uid() != 0 {
            return Err("only root can mount the disk whose power is cut".to_owned());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &&str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
        match PROGRAMS.iter().find(|name| !is_there(name)) {
            Some(missing) => {
                Err(format!("{missing} is not installed: run `apt-get install xfsprogs`"))
            }
            None => Ok(()),
        }
    }

    /// Makes a file system of this size in the file `image` and mounts it on a folder, which is made
    /// if it is not there.
    ///
    /// # Errors
    ///
    /// Fails with the words of the program that did.
    pub fn mount(image: &Path, folder: &Path, mib: u32) -> Result<Self, String> {
        Self::usable()?;
        let disk = Self { image: image.to_owned(), mount: folder.to_owned() };
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let file = fs::File::create(image);
        file.and_then(|file| file.set_len(u64::from(mib) << 20))
            .map_err(|error| format!("{}: {error}", image.display()))?;
        ran(Command::new("mkfs.xfs").arg("-q").arg(image))?;
        disk.attach()?;
        Ok(disk)
    }

    /// Makes the disk of a server's data: the folder `data` in the server's own.
    pub(super) fn of_server(scratch: &Path, mib: u32) -> Self {
        let data = scratch.join("data");
        let disk = Self::mount(&scratch.join("disk.img"), &data, mib);
        let disk = disk.unwrap_or_else(|why| panic!("{why}"));
        super::user::give(&data);
        disk
    }

    /// Returns the folder that it is mounted on.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Flushes all that was written so far.
    ///
    /// # Panics
    ///
    /// Panics if that fails.
    pub fn flush(&self) {
        let flushed = ran(Command::new("sync").arg("-f").arg(&self.mount));
        flushed.unwrap_or_else(|why| panic!("{why}"));
    }

    /// Cuts the power: nothing more is read or written, and what was not flushed is lost.
    ///
    /// Whoever works on the disk must have been frozen before, since the power of a machine goes for its
    /// processes too: a flush that meets the shutdown half-way can return as if it had been done
    /// (seen with Linux 6.18), and who lives on would tell somebody.
    ///
    /// # Panics
    ///
    /// Panics if the file system cannot be shut down.
    pub fn cut(&self) {
        let cut = ran(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.mount));
        cut.unwrap_or_else(|why| panic!("{why}"));
    }

    /// Gives the power back, once nobody works on the disk any more.
    ///
    /// # Panics
    ///
    /// Panics if somebody still does, or the file system does not recover.
    pub fn back(&mut self) {
        let mut why = String::new();
        let off = until(|| match ran(Command::new("umount").arg(&self.mount)) {
            Ok(_) => true,
            Err(error) => {
                why = error;
                false
            }
        });
        assert!(off, "{why}");
        self.attach().unwrap_or_else(|why| panic!("{why}"));
    }

    fn attach(&self) -> Result<(), String> {
        ran(Command::new("mount").args(["-o", "loop"]).args([&self.image, &self.mount])).map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still works there keeps it until it ends.
        drop(Command::new("umount").arg("-l").arg(&self.mount).output());
        drop(fs::remove_file(&self.image));
    }
}

fn ran(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::servers::{Major, Medium, Postgres, Redis, RedisKind, Scratch};

    /// Where no disk can be made, one sentence says why.
    fn is_usable() -> bool {
        let Err(why) = Disk::usable() else { return true };
        assert!(why.contains("root") || why.contains("xfsprogs"), "{why}");
        false
    }

    #[test]
    fn a_cut_loses_what_was_not_flushed_and_nothing_else() {
        if !is_usable() {
            return;
        }
        let scratch = Scratch::new("disk", Medium::Disk);
        let folder = scratch.path().join("m");
        let mut disk = Disk::mount(&scratch.path().join("disk.img"), &folder, 320).unwrap();
        for (name, flushed) in [("flushed", true), ("not", false)] {
            let mut file = fs::File::create(folder.join(name)).unwrap();
            file.write_all(b"x").unwrap();
            if flushed {
                file.sync_all().unwrap();
                fs::File::open(&folder).unwrap().sync_all().unwrap();
            }
        }
        disk.cut();
        assert!(fs::File::create(folder.join("more")).is_err());
        disk.back();
        assert_eq!(fs::read(folder.join("flushed")).unwrap(), b"x");
        assert_ne!(fs::read(folder.join("not")).unwrap_or_default(), b"x");
        let image = scratch.path().join("disk.img");
        drop(disk);
        assert!(!image.exists() && !folder.join("flushed").exists());
    }

    #[tokio::test]
    async fn a_server_whose_power_is_cut_has_every_commit() {
        if !is_usable() {
            return;
        }
        let mut server = Postgres::builder(Major::V15).disk(512).start().await;
        server.run_sql("CREATE TABLE t (n int)").await;
        for n in 0..5 {
            server.run_sql(&format!("INSERT INTO t VALUES ({n})")).await;
            server.cut_power().await;
            server.restart().await;
        }
        assert_eq!(server.run_sql("SELECT count(*) FROM t").await, "5");
    }

    #[tokio::test]
    async fn a_redis_whose_power_is_cut_has_what_it_flushed() {
        if !is_usable() {
            return;
        }
        let mut server = Redis::builder(RedisKind::Redis7).disk(320).start().await;
        for n in 1..=3 {
            assert_eq!(server.ask(&["INCR", "n"]).await, n.to_string());
            server.cut_power().await;
            server.restart().await;
            assert_eq!(server.ask(&["GET", "n"]).await, n.to_string());
        }
        let never = Redis::builder(RedisKind::Redis7).setting("appendfsync", "no");
        let mut server = never.disk(320).start().await;
        assert_eq!(server.ask(&["SET", "n", "1"]).await, "OK");
        server.cut_power().await;
        server.restart().await;
        assert_eq!(server.ask(&["GET", "n"]).await, "");
    }
}
