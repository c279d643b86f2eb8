//! What an operator's word meets: every state, claim seen, verdict and time.

use std::{fmt::Write, time::Duration};

use super::{FENCE, LEASE, NOW, OTHER, OWN, REMEMBER, REPLAY, before, golden, record};
use crate::{
    decide::{ResolveAsk, ResolveDecision, Verdict, resolve},
    outcome::Outcome,
    record::{Fence, Lease, Record, State, Token},
};

const SETTLE: Duration = Duration::from_secs(60);
const SEEN: [&str; 7] =
    ["nothing", "unknown", "running", "done", "failed", "open", "done by this resolution"];
const CLAIMS: [(&str, Token, Fence); 3] =
    [("as seen", OWN, FENCE), ("other token", OTHER, FENCE), ("other fence", OWN, Fence::new(6))];
const VERDICTS: [&str; 4] = ["done", "failed", "not done", "not done, anew"];
const TIMES: [&str; 3] = ["early", "settled", "early, forced"];

fn verdict(words: &str) -> Verdict {
    match words {
        "done" => Verdict::Done(Outcome::new(201, "found").pointer("payment", "8")),
        "failed" => Verdict::Failed(Outcome::new(402, "found")),
        "not done" => Verdict::NotDone { new_incarnation: false },
        _ => Verdict::NotDone { new_incarnation: true },
    }
}

fn met(seen: &str, (token, fence): (Token, Fence), said: &str, time: &str) -> ResolveDecision {
    // One lease and the time to settle end exactly now, or a microsecond later.
    let early = Duration::from_micros(u64::from(time != "settled"));
    let lease = Lease { renewed_at: before(LEASE + SETTLE - early), length: LEASE };
    let state = match seen.split(' ').next() {
        Some("unknown") => State::Unknown,
        Some("running") => State::Running,
        Some("done") => State::Done,
        Some("failed") => State::Failed,
        _ => State::Open,
    };
    let mut record = Record { lease, ..record(state) };
    if seen == "done by this resolution" {
        record.resolved_by = Some([9; 16]);
    }
    let ask = ResolveAsk {
        resolve_id: [9; 16],
        token,
        fence,
        verdict: verdict(said),
        settle_for: SETTLE,
        force: time == "early, forced",
        replay_for: REPLAY,
        remember_for: REMEMBER,
    };
    resolve((seen != "nothing").then_some(&record), &ask, NOW)
}

fn word(decision: &ResolveDecision) -> String {
    match decision {
        ResolveDecision::Already => "already".to_owned(),
        ResolveDecision::Absent => "absent".to_owned(),
        ResolveDecision::Changed(state) => format!("changed: {state}"),
        ResolveDecision::TooEarly(_) => "too early".to_owned(),
        ResolveDecision::Write(next) => format!("{}, incarnation {}", next.state, next.incarnation),
    }
}

/// The answer that the design promises: a compare-and-set on unknown, token and fence, idempotent
/// by its id, and no "not done" while the holder may still be sending, unless forced.
fn promised(seen: &str, claim: &str, said: &str, time: &str) -> String {
    match (seen, claim, said, time) {
        ("nothing", ..) => "absent",
        ("done by this resolution", ..) => "already",
        ("unknown", "as seen", "done", _) => "done, incarnation 0",
        ("unknown", "as seen", "failed", _) => "failed, incarnation 0",
        ("unknown", "as seen", _, "early") => "too early",
        ("unknown", "as seen", "not done", _) => "open, incarnation 0",
        ("unknown", "as seen", ..) => "open, incarnation 1",
        (state, ..) => return format!("changed: {state}"),
    }
    .to_owned()
}

#[test]
fn every_resolution_meets_what_the_design_promises() {
    let mut text = String::from("# What a resolution meets, by when it comes.\n");
    writeln!(text, "{:<25}{:<13}{:<16}{:<22}{:<22}{}", "#", "", "", TIMES[0], TIMES[1], TIMES[2])
        .unwrap();
    for seen in SEEN {
        for (claim, token, fence) in CLAIMS {
            for said in VERDICTS {
                let cells = TIMES.map(|time| {
                    let met = word(&met(seen, (token, fence), said, time));
                    assert_eq!(
                        met,
                        promised(seen, claim, said, time),
                        "{seen}; {claim}; {said}; {time}"
                    );
                    met
                });
                let [early, settled, forced] = cells;
                writeln!(text, "{seen:<25}{claim:<13}{said:<16}{early:<22}{settled:<22}{forced}")
                    .unwrap();
            }
        }
    }
    golden("resolve.txt", include_str!("testdata/resolve.txt"), &text);
}

#[test]
fn too_early_says_until_when() {
    let decision = met("unknown", (OWN, FENCE), "not done", "early");
    assert_eq!(decision, ResolveDecision::TooEarly(NOW.after(Duration::from_micros(1))));
}

#[test]
fn a_resolution_kills_the_permit_and_compares() {
    let ResolveDecision::Write(open) = met("unknown", (OWN, FENCE), "not done", "settled") else {
        panic!("it was to be written");
    };
    assert_eq!((open.resolved_by, open.compare), (Some([9; 16]), true));
    assert_eq!((open.settled_at, open.remember_until), (Some(NOW), NOW.after(REMEMBER)));
    assert_eq!(open.outcome, None);
    let ResolveDecision::Write(done) = met("unknown", (OWN, FENCE), "done", "early") else {
        panic!("it was to be written");
    };
    assert_eq!((done.resolved_by, done.replay_until), (Some([9; 16]), NOW.after(REPLAY)));
    assert_eq!(done.pointer, done.outcome.unwrap().pointer);
}
