//! How much sharing a commit gains: 64 concurrent callers who each claim and complete, durably,
//! against the same work with one commit for each step.
//!
//! `cargo bench -p semel-sqlite --bench group_commit -- [--json] [--grouped] [--seconds N] [--dir FOLDER]`
//!
//! The folder must lie on the disk in question; a file system in memory has nothing to flush.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench measures time and may fail by panicking"
)]

mod callers;

use std::{path::PathBuf, time::Duration};

use callers::{CALLERS, Round, replays, round};

#[derive(Debug)]
struct Options {
    json: bool,
    /// Only the grouped round, for a profiler.
    grouped: bool,
    seconds: u64,
    dir: PathBuf,
}

fn main() {
    let options = options();
    let span = Duration::from_secs(options.seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if options.grouped {
        let grouped = runtime.block_on(round(&options.dir, span, 512, CALLERS));
        show("64 callers, grouped commits", &grouped);
        return;
    }
    let alone = runtime.block_on(round(&options.dir, span, 1, 1));
    let single = runtime.block_on(round(&options.dir, span, 1, CALLERS));
    let grouped = runtime.block_on(round(&options.dir, span, 512, CALLERS));
    let replayed = runtime.block_on(replays(&options.dir, Duration::from_secs(1)));
    let ratio = grouped.steps_per_second / single.steps_per_second;
    if options.json {
        println!(
            "{{\"bench\":\"group_commit\",\"callers\":{CALLERS},\"alone_steps_per_s\":{:.0},\
             \"single_steps_per_s\":{:.0},\"grouped_steps_per_s\":{:.0},\"ratio\":{ratio:.2},\
             \"grouped_p50_us\":{},\"grouped_p99_us\":{},\"replays_per_s\":{replayed:.0}}}",
            alone.steps_per_second,
            single.steps_per_second,
            grouped.steps_per_second,
            grouped.median.as_micros(),
            grouped.p99.as_micros(),
        );
        return;
    }
    show("1 caller, one commit per step", &alone);
    show("64 callers, one commit per step", &single);
    show("64 callers, grouped commits", &grouped);
    println!("{:<42} {replayed:>9.0} replays/s", "64 callers, replays");
    println!("grouped / one commit per step: {ratio:.1}");
}

fn show(name: &str, round: &Round) {
    println!(
        "{name:<42} {:>9.0} steps/s   claim+complete p50 {:>8.2?}  p99 {:>8.2?}",
        round.steps_per_second, round.median, round.p99
    );
}

fn options() -> Options {
    let mut options =
        Options { json: false, grouped: false, seconds: 3, dir: std::env::temp_dir() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => options.json = true,
            "--grouped" => options.grouped = true,
            "--seconds" => options.seconds = words.next().unwrap().parse().unwrap(),
            "--dir" => options.dir = words.next().unwrap().into(),
            _ => {}
        }
    }
    options
}
