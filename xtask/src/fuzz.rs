//! `cargo xtask fuzz`: builds the fuzzer once, and lets every target look for inputs that break its promise.
//!
//! No nightly compiler: the flags of `fuzz/instrumented-rustc` are stable, and only the crates of this workspace are
//! compiled by it, so that all their dependencies are those of any other build.

mod report;

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use anyhow::{Context, Result, bail, ensure};

use self::report::{Report, Verdict};
use crate::{install, shell};

/// The longest run of one input.
const INPUT_SECONDS: u32 = 10;
/// What the fuzzer may take of memory, with everything it keeps.
const MEMORY_MIB: u32 = 1024;
/// The longest input that is tried.
const INPUT_BYTES: u32 = 4096;
/// The longest input that is kept in the repository.
const KEPT_BYTES: u64 = 2048;

/// What to run, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs
    #[arg(long, default_value_t = 2, value_name = "N")]
    seconds: u32,
    /// The seed of all targets; a fresh one by default
    #[arg(long)]
    seed: Option<u32>,
    /// How many targets run at once; as many as there are cores by default
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Run this one input, with one target
    #[arg(long, value_name = "FILE", requires = "targets")]
    replay: Option<PathBuf>,
    /// Add to the repository's corpus what reaches more, instead of running
    #[arg(long, conflicts_with = "replay")]
    keep: bool,
    /// The targets; all by default
    targets: Vec<String>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { seconds: 2, seed: None, jobs: None, replay: None, keep: false, targets: Vec::new() }
    }
}

/// Builds the fuzzer and does what is asked.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let targets = targets(arguments)?;
    let fuzzer = build()?;
    if let Some(input) = &arguments.replay {
        let input = std::path::absolute(input).context("cannot find the input")?;
        return targets.iter().try_for_each(|target| replay(&fuzzer, target, &input));
    }
    if arguments.keep {
        return targets.iter().try_for_each(|target| keep(&fuzzer, target));
    }
    canary(&fuzzer)?;
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    println!("{} targets, {} s each, seed {seed}", targets.len(), arguments.seconds);
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = arguments.jobs.unwrap_or(cores).max(1);
    let reports = all(jobs, &targets, |target| search(&fuzzer, target, arguments.seconds, seed))?;
    let broken: Vec<_> = reports.iter().filter(|report| report.verdict != Verdict::Kept).collect();
    for report in &broken {
        report.explain();
    }
    let names: Vec<_> = broken.iter().map(|report| report.target.as_str()).collect();
    ensure!(names.is_empty(), "promises were broken or not tried: {}", names.join(", "));
    Ok(())
}

/// The targets that are asked for, by the folders of the corpus.
fn targets(arguments: &Arguments) -> Result<Vec<String>> {
    let folder = corpus("");
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut known: Vec<String> = names.collect::<std::io::Result<_>>()?;
    known.sort();
    if arguments.targets.is_empty() {
        return Ok(known);
    }
    for target in &arguments.targets {
        ensure!(known.contains(target), "no target {target}; there are {}", known.join(", "));
    }
    Ok(arguments.targets.clone())
}

fn build() -> Result<PathBuf> {
    install::for_building()?;
    let mut build = shell::cargo(&["build", "--locked", "--bin", "semel-fuzz"]);
    build.args(shell::WHOLE);
    build.env("RUSTC_WORKSPACE_WRAPPER", shell::root().join("fuzz/instrumented-rustc"));
    shell::show(build)?;
    Ok(shell::target().join("debug").join("semel-fuzz"))
}

/// Runs `work` for every target, some at once, and shows each report as it comes.
fn all(
    jobs: usize,
    targets: &[String],
    work: impl Fn(&str) -> Result<Report> + Sync,
) -> Result<Vec<Report>> {
    let queue = Mutex::new(targets.iter());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let drain = || {
        let mut done = Vec::new();
        while let Some(target) = next() {
            let report = work(target)?;
            println!("{}", report.line());
            done.push(report);
        }
        Ok::<_, anyhow::Error>(done)
    };
    println!("{}", Report::head());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(drain)).collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(reports) => reports,
            Err(_) => bail!("a thread of this task panicked"),
        });
        Ok(ended.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// Shows that a broken promise is found, by one that is broken on purpose: by chance alone it would take years.
fn canary(fuzzer: &Path) -> Result<()> {
    let mut command = fuzzer_of(fuzzer, "canary");
    let crashes = made(&work("crashes").join("canary"))?;
    command.arg("-max_total_time=60").arg(format!("-artifact_prefix={}/", crashes.display()));
    let output = command.output().context("cannot start the fuzzer")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && words.contains("the canary sings"),
        "the fuzzer does not find what it should: {words}"
    );
    println!("the canary was found");
    Ok(())
}

/// Lets one target look for new inputs.
fn search(fuzzer: &Path, target: &str, seconds: u32, seed: u32) -> Result<Report> {
    let found = made(&work("corpus").join(target))?;
    let crashes = made(&work("crashes").join(target))?;
    let mut command = fuzzer_of(fuzzer, target);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-seed={seed}")).arg(format!("-artifact_prefix={}/", crashes.display()));
    command.arg("-print_final_stats=1");
    let dictionary = shell::root().join("fuzz/dictionaries").join(format!("{target}.dict"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let output = command.arg(found).arg(corpus(target)).output().context("cannot start it")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // What a target prints is no part of the fuzzer's words, but says more where it fails.
    let text = format!("{}{text}", String::from_utf8_lossy(&output.stdout));
    Ok(Report::of(target, output.status.success(), text))
}

/// Runs one input as the fuzzer does, with everything shown.
fn replay(fuzzer: &Path, target: &str, input: &Path) -> Result<()> {
    let mut command = fuzzer_of(fuzzer, target);
    command.arg(input);
    shell::show(command)
}

/// Adds the fewest of the inputs that were found to the repository's corpus with which it reaches all they reach.
fn keep(fuzzer: &Path, target: &str) -> Result<()> {
    let found = made(&work("corpus").join(target))?;
    let small = work("small").join(target);
    if small.exists() {
        fs::remove_dir_all(&small).context("cannot empty a folder")?;
    }
    made(&small)?;
    for input in fs::read_dir(&found).context("cannot read what was found")? {
        let input = input.context("cannot read what was found")?;
        if input.metadata().context("cannot read what was found")?.len() <= KEPT_BYTES {
            fs::copy(input.path(), small.join(input.file_name())).context("cannot copy")?;
        }
    }
    let mut command = fuzzer_of(fuzzer, target);
    command.arg("-set_cover_merge=1").arg(corpus(target)).arg(small);
    let status = command.output().context("cannot start it")?.status;
    ensure!(status.success(), "the corpus of {target} could not be merged: {status}");
    let count = fs::read_dir(corpus(target)).context("no corpus")?.count();
    println!("{target}: {count} inputs");
    Ok(())
}

fn fuzzer_of(fuzzer: &Path, target: &str) -> Command {
    let mut command = shell::command(fuzzer, &[]);
    command.env("FUZZ_TARGET", target);
    for (name, value) in
        [("timeout", INPUT_SECONDS), ("rss_limit_mb", MEMORY_MIB), ("max_len", INPUT_BYTES)]
    {
        command.arg(format!("-{name}={value}"));
    }
    command
}

fn corpus(target: &str) -> PathBuf {
    shell::root().join("fuzz/corpus").join(target)
}

/// Where runs put what they find.
fn work(kind: &str) -> PathBuf {
    shell::target().join("fuzz").join(kind)
}

fn made(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Never 0, which the fuzzer takes for "any".
fn fresh_seed() -> u32 {
    let bits = RandomState::new().hash_one("seed").to_le_bytes();
    u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]).max(1)
}
