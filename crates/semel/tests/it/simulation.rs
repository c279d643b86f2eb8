//! Whole worlds of engines, callers, faults and clocks, in an order drawn from a seed.
//!
//! `SEMEL_SEEDS` says how many worlds are played, `SEMEL_SEED` which is the first.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use semel_testkit::{
    SeededEntropy,
    sim::{Lie, Simulated, Tally, simulate, written},
};

/// How many worlds are played when nobody says how many.
const SEEDS: u64 = 2_000;
/// How many worlds a lie may take to be found in.
const LIES_FOUND_IN: u64 = 2_000;
/// From how many worlds on everything must have happened.
const EVERYTHING_IN: u64 = 1_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// Plays `count` worlds from `first` on, on a few threads, and returns what broke and what happened.
fn play(first: u64, count: u64) -> (Vec<Simulated>, Tally) {
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    let tally = Mutex::new(Tally::default());
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(4));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Tally::default();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        break;
                    }
                    let world = simulate(first.wrapping_add(nth), Lie::None);
                    own.merge(&world.tally);
                    if !world.broken.is_empty() {
                        broken.lock().unwrap().push(world);
                    }
                }
                tally.lock().unwrap().merge(&own);
            });
        }
    });
    (broken.into_inner().unwrap(), tally.into_inner().unwrap())
}

/// Shows a world in which something broke: how to play it again, and all that happened.
fn shown(world: &Simulated) -> String {
    let Simulated { seed, digest, broken, .. } = world;
    let again = written(*seed, Lie::None);
    assert_eq!(again.digest, *digest, "world {seed} does not play again");
    format!(
        "{}\nworld {seed}: {broken:#?}\nreplay with: SEMEL_SEED={seed} cargo test -p semel --test it \
         simulation::no_world_breaks_a_promise -- --nocapture",
        again.lines
    )
}

/// What must happen somewhere, or the worlds prove less than they say.
const HAPPENS: [&str; 56] = [
    "asked first: done",
    "asked first: not done",
    "bridge: breach",
    "bridge: committed",
    "bridge: rolled back",
    "effect",
    "ends: no effect",
    "ends: outcome",
    "ends: perhaps",
    "fault: answer hangs",
    "fault: answer late",
    "fault: answer lost",
    "fault: call hangs",
    "fault: call late",
    "fault: call lost",
    "fault: fails",
    "fault: lock taken",
    "fault: panics",
    "granted: answer lost before",
    "granted: fresh",
    "granted: reopened",
    "granted: taken over",
    "left",
    "not stored",
    "process frozen",
    "process killed",
    "process thawed",
    "refused: forgotten",
    "refused: in progress",
    "refused: mismatch",
    "refused: unknown",
    "resolved: done",
    "resolved: not done",
    "resolved: not heard",
    "resolved: too early",
    "semel_abandoned_total",
    "semel_bridge_breaches_total",
    "semel_conflicts_total",
    "semel_forgotten_total",
    "semel_fresh_total",
    "semel_in_progress_total",
    "semel_leases_lost_total",
    "semel_mismatch_total",
    "semel_not_stored_total",
    "semel_released_total",
    "semel_replay_total",
    "semel_store_errors_total",
    "semel_swept_total",
    "semel_takeovers_total",
    "semel_unknown_total",
    "semel_waits_total",
    "stale",
    "start refused",
    "store away",
    "store's clock jumped",
    "store's clock turned back",
];

/// C11, C79: whatever fails, no intent has a second effect where that is promised, nothing that was
/// acknowledged is lost, every answer is true, and everything comes to an end.
#[test]
fn no_world_breaks_a_promise() {
    let first = SeededEntropy::printed().seed();
    let one = number("SEMEL_SEED").map(|_| 1);
    let count = number("SEMEL_SEEDS").or(one).unwrap_or(SEEDS);
    let (broken, tally) = play(first, count);
    println!("what happened in {count} worlds from {first} on:\n{tally}");
    let seeds: Vec<_> = broken.iter().map(|world| world.seed).collect();
    if let Some(world) = broken.first() {
        panic!("{}\nall that broke: {seeds:?}", shown(world));
    }
    let missing: Vec<_> = HAPPENS.iter().filter(|what| tally.of(what) == 0).collect();
    assert!(count < EVERYTHING_IN || missing.is_empty(), "never happened: {missing:?}");
}

/// The same seed plays the same world to the last step, here and in another process; another seed plays
/// another.
#[test]
fn a_seed_is_a_world() {
    const IN_CHILD: &str = "SEMEL_PRINT_DIGESTS";
    let digests: Vec<_> = (0..40).map(|seed| simulate(seed, Lie::None).digest).collect();
    let line = format!("digests: {digests:x?}");
    if std::env::var_os(IN_CHILD).is_some() {
        println!("{line}");
        return;
    }
    let again: Vec<_> = (0..40).map(|seed| written(seed, Lie::None).digest).collect();
    assert_eq!(digests, again);
    let different: std::collections::HashSet<_> = digests.iter().collect();
    assert_eq!(different.len(), digests.len());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "simulation::a_seed_is_a_world", "--nocapture"]).env(IN_CHILD, "1");
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains(&line), "another process plays other worlds: {told}");
}

/// Plays worlds with a store that lies until the checker says what it must, and returns how many.
#[track_caller]
fn found(lie: &Lie, says: &str) -> u64 {
    let tells = |seed: &u64| simulate(*seed, lie.clone()).broken.iter().any(|b| b.contains(says));
    let seed = (1..=LIES_FOUND_IN).find(tells);
    seed.unwrap_or_else(|| panic!("{lie:?} is not found: nobody says {says:?}"))
}

#[test]
fn a_store_that_grants_twice_once_in_10_000_claims_is_found() {
    let lie = Lie::GrantsTwice(10_000, Arc::new(AtomicU64::new(0)));
    println!("found in world {}", found(&lie, "granted while another believed"));
}

/// The canary of each rule: a lie that it alone, or it first of all, is there to find.
#[test]
fn every_lie_is_found_by_its_rule() {
    let lies = [
        (Lie::ActsNot, "acknowledged, and no effect"),
        (Lie::ComparesNothing, "other content"),
        (Lie::ForgetsCompletion, "acknowledged, and nothing is replayed"),
        (Lie::ForgottenForNothing, "untrue answer: Forgotten"),
        (Lie::HeldForEver, "never comes to an end"),
        (Lie::HeldForNothing, "untrue answer: InProgress"),
        (Lie::Invents, "which nobody stored"),
        (Lie::KeepsHolder, "untrue answer: Unknown"),
        (Lie::MismatchForNothing, "untrue answer: Mismatch"),
        (Lie::OperatorGuesses, "effects"),
        (Lie::RemembersBriefly, "granted though its outcome was told"),
        (Lie::RemembersLong, "untrue answer: Outlived"),
        (Lie::RenewsEnded, "effects"),
        (Lie::StoresEnded, "first and"),
        (Lie::UnknownForNothing, "untrue answer: Unknown"),
    ];
    for (lie, says) in lies {
        println!("{lie:?}: found in world {}", found(&lie, says));
    }
}
