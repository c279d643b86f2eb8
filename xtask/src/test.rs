//! `cargo xtask test`: every test of the workspace, and no silence about one that did not run.
//!
//! The binaries are those of `cargo test`, and run as there, but for one thing: what waits for most of its time runs
//! beside what computes, and so do the code blocks of the pages. Each one's output is shown as a whole when it ends.

mod binary;
mod tally;

use std::{
    fs,
    num::NonZero,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use self::{binary::Binary, tally::Tally};
use crate::{docs, install, shell};

/// The packages whose tests wait for most of their time, for a broker, for leases and for children that are killed:
/// they run beside all the others.
const WAITING: [&str; 2] = ["semel-drill", "semel-kafka"];
/// The niceness of all the others: they leave the cores to what was woken by a clock beside them.
const NICE: &str = "10";

/// Which tests to run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose path contains this
    filter: Option<String>,
    /// Test only this package
    #[arg(long, short)]
    package: Option<String>,
    /// Leave out the tests whose path contains this, by name; any other test that does not run fails the run
    #[arg(long, value_name = "NAME")]
    excuse: Vec<String>,
}

/// Installs what tests need and runs them.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    install::for_tests()?;
    let binaries = Binary::build(cargo(arguments))?;
    let of = |package: &str| -> Vec<_> {
        binaries.iter().filter(|binary| binary.package == package).collect()
    };
    let waits = |binary: &&Binary| WAITING.contains(&binary.package.as_str());
    let computing = binaries.iter().filter(|binary| !waits(binary)).collect();
    let tally = Mutex::new(Tally::default());
    let words = words(arguments);
    let lane = |nice: &'static str, binaries: Vec<&Binary>| {
        binaries.into_iter().try_for_each(|binary| one(binary, nice, &words, &tally))
    };
    thread::scope(|scope| {
        let mut lanes = vec![scope.spawn(|| lane(NICE, computing))];
        lanes.extend(WAITING.map(|package| scope.spawn(move || lane("0", of(package)))));
        lanes.push(scope.spawn(|| pages(arguments, &tally)));
        lanes.into_iter().try_for_each(|lane| match lane.join() {
            Err(_) => bail!("a thread of this task panicked"),
            Ok(ended) => ended,
        })
    })?;
    let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    documentation(arguments, &words, &mut tally)?;
    for name in &arguments.excuse {
        println!("excused on the command line: {name}");
    }
    println!("\n{} passed, {} failed", tally.passed, tally.failed);
    tally.judge()
}

/// `cargo test` of what is asked for.
fn cargo(arguments: &Arguments) -> Command {
    let mut test = shell::cargo(&["test", "--locked"]);
    match arguments.package.as_deref() {
        None => test.args(shell::WHOLE),
        Some("semel-gateway") => {
            test.args(["--package", "semel-gateway"]).args(shell::WHOLE_GATEWAY)
        }
        Some(package) => test.args(["--package", package]),
    };
    test
}

/// What each binary is told.
fn words(arguments: &Arguments) -> Vec<String> {
    let mut words: Vec<_> = arguments.filter.iter().cloned().collect();
    for name in &arguments.excuse {
        words.extend(["--skip".to_owned(), name.clone()]);
    }
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        // Most tests wait for servers: twice as many at once as there are cores keep the cores busy.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        words.extend(["--test-threads".to_owned(), (2 * cores).to_string()]);
    }
    words
}

/// Runs one binary, and shows what it said when it has ended.
fn one(binary: &Binary, nice: &str, words: &[String], tally: &Mutex<Tally>) -> Result<()> {
    println!("     Running {binary}");
    let log = shell::target().join("tests");
    fs::create_dir_all(&log).with_context(|| format!("cannot make {}", log.display()))?;
    let ran = binary.run(nice, words, &log)?;
    // Held while it is shown: no two outputs mix.
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    println!("\n==> {binary} took {:.1} s\n{}", ran.took.as_secs_f64(), ran.said.trim());
    tally.add(&binary.to_string(), &ran.said, ran.ended_well);
    Ok(())
}

/// Runs the other code blocks of the pages, unless only some tests are asked for.
fn pages(arguments: &Arguments, tally: &Mutex<Tally>) -> Result<()> {
    if arguments.filter.is_some() || arguments.package.is_some() {
        return Ok(());
    }
    let (start, held) = (Instant::now(), docs::blocks());
    let took = start.elapsed().as_secs_f64();
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    match held {
        Ok(count) => println!("\n==> pages took {took:.1} s\n{count}"),
        Err(why) => tally.fail("pages", &format!("{why:#}")),
    }
    Ok(())
}

/// Runs the Rust of the documentation: of all the crates, and of the pages by way of the examples.
fn documentation(arguments: &Arguments, words: &[String], tally: &mut Tally) -> Result<()> {
    let mut test = cargo(arguments);
    test.args(["--doc", "--no-fail-fast", "--"]).args(words).stderr(Stdio::inherit());
    let output = test.output().context("cannot start cargo test")?;
    let said = String::from_utf8_lossy(&output.stdout);
    println!("\n==> documentation\n{}", said.trim());
    tally.add("documentation", &said, output.status.success());
    Ok(())
}
