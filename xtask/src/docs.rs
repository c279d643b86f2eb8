//! `cargo xtask docs-test`: the code blocks of README.md and docs/ do what the pages say.
//!
//! | info string | what is done with the block |
//! |---|---|
//! | `rust` | compiled and run by rustdoc: `examples/lib.rs` includes the page |
//! | `sh run` | run by `bash -euo pipefail` with the built `semel` on the search path; must end with 0 |
//! | `text output` | compared with what the `sh run` before it printed; `…` stands for anything |
//! | `toml semel [FILE]` | written as FILE, by default `semel.toml`, and must pass `semel check` |
//! | `json` | must parse |
//!
//! The blocks of one page share one empty folder, in order; what a page leaves running is ended with the page.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::markdown::{Fence, Page};
use crate::{install, shell};

/// A block of a newcomer's first ten minutes takes seconds.
const BLOCK_TIME_MAX: Duration = Duration::from_secs(120);

/// A server that was asked to stop lets its holders finish; past this it is killed.
const END_TIME_MAX: Duration = Duration::from_secs(20);

/// Runs every block.
pub(crate) fn run() -> Result<()> {
    let mut tests = shell::cargo(&["test", "--locked", "--doc"]);
    tests.args(shell::WHOLE);
    shell::show(tests)?;
    install::programs(&[&install::CURL])?;
    // The very build of the tests: nothing is compiled again after them.
    let mut build = shell::cargo(&["build", "--locked", "--bins", "--tests"]);
    build.args(shell::WHOLE);
    shell::show(build)?;
    println!("{}", blocks()?);
    Ok(())
}

/// Runs the blocks that rustdoc does not, with the programs that are built, and says how many there are.
pub(crate) fn blocks() -> Result<String> {
    let mut count = 0;
    let mut failures = Vec::new();
    for page in pages()? {
        let name = page.strip_prefix(shell::root()).unwrap_or(&page).display().to_string();
        let text = std::fs::read_to_string(&page).with_context(|| format!("cannot read {name}"))?;
        let result = Session::new()?.run(&Page::parse(&text));
        count += *result.as_ref().unwrap_or(&0);
        failures.extend(result.err().map(|error| format!("{name}:{error:#}")));
    }
    let pages = failures.len();
    ensure!(
        failures.is_empty(),
        "{pages} pages promise what does not hold\n{}",
        failures.join("\n")
    );
    Ok(format!("{count} code blocks do what their pages say"))
}

fn pages() -> Result<Vec<PathBuf>> {
    let list =
        ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "README.md", "docs"];
    let names = shell::read(shell::git(&list))?;
    let pages = names.split('\0').filter(|name| name.ends_with(".md"));
    Ok(pages.map(|name| shell::root().join(name)).filter(|page| page.is_file()).collect())
}

/// The blocks of one page in their own folder.
#[derive(Debug)]
struct Session {
    folder: tempfile::TempDir,
    started: Vec<Child>,
    printed: String,
}

impl Session {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the blocks")?;
        Ok(Self { folder, started: Vec::new(), printed: String::new() })
    }

    /// Runs the blocks of `page` in order and returns how many there were to run or check.
    fn run(mut self, page: &Page) -> Result<usize> {
        let mut count = 0;
        for fence in &page.fences {
            let known = self.block(fence).with_context(|| fence.line.to_string())?;
            count += usize::from(known);
        }
        Ok(count)
    }

    fn block(&mut self, fence: &Fence) -> Result<bool> {
        match fence.info.split(' ').collect::<Vec<_>>().as_slice() {
            ["sh", "run"] => self.shell(&fence.text)?,
            ["text", "output"] => matches(&fence.text, &self.printed)?,
            ["toml", "semel"] => self.configuration("semel.toml", &fence.text)?,
            ["toml", "semel", name] => self.configuration(name, &fence.text)?,
            ["json"] => {
                let parsed: Result<serde_json::Value, _> = serde_json::from_str(&fence.text);
                parsed.context("the block is not JSON")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn configuration(&mut self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.folder.path().join(name), text)?;
        self.shell(&format!("semel check --config {name}"))
    }

    /// Runs `script` and keeps what it printed; what it leaves in the background lives on.
    fn shell(&mut self, script: &str) -> Result<()> {
        let output = self.folder.path().join(".output");
        let file = File::create(&output)?;
        let mut shell = shell::command("bash", &["-euo", "pipefail", "-c", script]);
        shell.current_dir(self.folder.path());
        shell.env("PATH", search_path()?).env("HOME", self.folder.path());
        shell.stdout(file.try_clone()?).stderr(file).process_group(0);
        let mut child = shell.spawn().context("cannot start bash")?;
        let status = wait(&mut child);
        self.started.push(child);
        self.printed = String::from_utf8_lossy(&std::fs::read(&output)?).into_owned();
        let status = status?;
        ensure!(status.success(), "the block ended with {status} and printed\n{}", self.printed);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for child in &self.started {
            // The group outlives its shell when the block started a server; the next page wants its port.
            let deadline = Instant::now() + END_TIME_MAX;
            let mut lives = has_group("-TERM", child.id());
            while lives && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
                lives = has_group("-0", child.id());
            }
            if lives {
                has_group("-KILL", child.id());
            }
        }
    }
}

/// Sends `signal` to the process group and says whether anything was left to take it.
fn has_group(signal: &str, id: u32) -> bool {
    let group = format!("-{id}");
    let mut kill = shell::command("kill", &[signal, "--", &group]);
    let status = kill.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + BLOCK_TIME_MAX;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("the block did not end within {} s", BLOCK_TIME_MAX.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn search_path() -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let built = shell::target().join("debug");
    let folders = std::iter::once(built).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("the search path cannot be extended")
}

/// Compares line by line; a line `…` stands for any lines, `…` in a line for anything in it.
fn matches(wanted: &str, printed: &str) -> Result<()> {
    let wanted_lines: Vec<_> = wanted.lines().map(str::trim_end).collect();
    let printed_lines: Vec<_> = printed.lines().map(str::trim_end).collect();
    ensure!(
        lines_match(&wanted_lines, &printed_lines),
        "the page shows\n{wanted}but the block printed\n{printed}"
    );
    Ok(())
}

fn lines_match(wanted: &[&str], printed: &[&str]) -> bool {
    match (wanted.split_first(), printed.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((first, rest)), _) if first.trim() == "…" => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((line, lines))) => {
            line_matches(first, line) && lines_match(rest, lines)
        }
    }
}

fn line_matches(wanted: &str, printed: &str) -> bool {
    let Some((start, pattern)) = wanted.split_once('…') else {
        return wanted == printed;
    };
    let Some(rest) = printed.strip_prefix(start) else {
        return false;
    };
    let cuts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    cuts.into_iter().any(|at| line_matches(pattern, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Result<usize> {
        Session::new().unwrap().run(&Page::parse(text))
    }

    #[test]
    fn blocks_of_a_page_share_a_folder_and_show_their_output() {
        let text = "```sh run\necho one > a; (sleep 60 &)\n```\n```sh run\ncat a; echo two\n```\n\
                    ```text output\no…e\n…\n```\n```sh no-run\nfalse\n```\n";
        assert_eq!(page(text).unwrap(), 3);
    }

    #[test]
    fn a_block_that_fails_or_prints_otherwise_is_found_by_its_line() {
        let failing = page("x\n```sh run\nfalse; true\n```\n").unwrap_err();
        assert!(format!("{failing:#}").starts_with("2: the block ended"), "{failing:#}");
        let other = page("```sh run\necho a\n```\n```text output\nb\n```\n").unwrap_err();
        assert!(format!("{other:#}").starts_with("4: the page shows"), "{other:#}");
        assert!(page("```json\n{]\n```\n").is_err());
    }

    #[test]
    fn the_ellipsis_stands_for_anything() {
        let check = |wanted: &str, printed: &str, same| {
            assert_eq!(matches(wanted, printed).is_ok(), same, "{wanted}")
        };
        check("HTTP/1.1 …\n…\ndone\n", "HTTP/1.1 200 OK\na: b\nc\ndone\n", true);
        check("a … c\n", "a b d\n", false);
        check("a\n", "a\nb\n", false);
    }
}
