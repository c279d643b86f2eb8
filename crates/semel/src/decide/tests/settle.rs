//! What a permit may still do: every verb, state, token and fence.

use std::{fmt::Write, time::Duration};

use super::{FENCE, LEASE, NOW, OTHER, OWN, REMEMBER, REPLAY, before, golden, record};
use crate::{
    decide::{
        Finish, FinishKind, ReleaseAsk, Settle, Sweep, complete, release, renew, sweep, sweepable,
    },
    outcome::Outcome,
    record::{Fence, Lease, Record, State, Token},
};

const VERBS: [&str; 7] = [
    "renew",
    "complete done",
    "complete failed",
    "complete unknown",
    "release",
    "release in doubt",
    "release by token alone",
];
const SEEN: [&str; 10] = [
    "nothing",
    "running",
    "running, lease over",
    "unknown",
    "done",
    "failed",
    "open",
    "done by a resolution",
    "failed by a resolution",
    "open by a resolution",
];
const PERMITS: [(&str, Token, Fence); 4] = [
    ("own", OWN, FENCE),
    ("other token", OTHER, FENCE),
    ("other fence", OWN, Fence::new(8)),
    ("both other", OTHER, Fence::new(6)),
];

fn seen(words: &str) -> Option<Record> {
    let state = match words.split([',', ' ']).next() {
        Some("running") => State::Running,
        Some("unknown") => State::Unknown,
        Some("done") => State::Done,
        Some("failed") => State::Failed,
        Some("open") => State::Open,
        _ => return None,
    };
    let mut record = record(state);
    if words.ends_with("lease over") {
        record.lease = Lease { renewed_at: before(LEASE * 100), length: LEASE };
    }
    if words.ends_with("by a resolution") {
        record.resolved_by = Some([9; 16]);
    }
    Some(record)
}

fn finish(kind: FinishKind) -> Finish {
    Finish {
        kind,
        outcome: Some(Outcome::new(200, "new").pointer("payment", "8")),
        reason: Some("why".into()),
        replay_for: REPLAY,
        remember_for: REMEMBER,
    }
}

fn given(token: Token, fence: Option<Fence>, compare: bool) -> ReleaseAsk {
    ReleaseAsk { token, fence, compare, reason: Some("why".into()), remember_for: REMEMBER }
}

fn met(verb: &str, words: &str, token: Token, fence: Fence) -> Settle {
    let record = seen(words);
    let record = record.as_ref();
    let end = |kind| complete(record, token, fence, &finish(kind), NOW);
    let give = |fence, compare| release(record, &given(token, fence, compare), NOW);
    match verb {
        "renew" => renew(record, token, fence, LEASE * 2, NOW),
        "complete done" => end(FinishKind::Done),
        "complete failed" => end(FinishKind::Failed),
        "complete unknown" => end(FinishKind::Unknown),
        "release" => give(Some(fence), false),
        "release in doubt" => give(Some(fence), true),
        _ => give(None, false),
    }
}

fn word(settle: &Settle) -> &'static str {
    match settle {
        Settle::Already => "already",
        Settle::Stale => "stale",
        Settle::Write(next) => next.state.as_str(),
    }
}

/// The answer that the design promises.
fn promised(verb: &str, words: &str, permit: &str) -> &'static str {
    let by_token = verb == "release by token alone";
    let own = permit == "own" || (by_token && permit == "other fence");
    // Token and fence are compared in every write; a resolution has killed the permit.
    if !own || words == "nothing" || words.ends_with("by a resolution") {
        return "stale";
    }
    let verb = if verb.starts_with("release") { "release" } else { verb };
    match (verb, words) {
        // The state must admit it, and the lease never counts.
        ("renew", "running" | "running, lease over") => "running",
        ("renew", _) => "stale",
        ("complete done", "running" | "running, lease over" | "unknown") => "done",
        ("complete failed", "running" | "running, lease over" | "unknown") => "failed",
        ("complete unknown", "running" | "running, lease over") => "unknown",
        ("release", "running" | "running, lease over" | "unknown") => "open",
        // A repeat by the last token is recognised: the first of two ends is kept.
        ("complete unknown", "unknown") | ("release", "open") => "already",
        ("complete done" | "complete failed" | "complete unknown", "done" | "failed") => "already",
        ("complete done" | "complete failed" | "complete unknown", "open") => "stale",
        ("release", "done" | "failed") => "stale",
        other => panic!("nothing is promised for {other:?}"),
    }
}

#[test]
fn every_write_meets_what_the_design_promises() {
    for verb in VERBS {
        for words in SEEN {
            for (permit, token, fence) in PERMITS {
                let settle = met(verb, words, token, fence);
                assert_eq!(
                    word(&settle),
                    promised(verb, words, permit),
                    "{verb}; {words}; {permit}"
                );
            }
        }
    }
}

#[test]
fn the_table_of_writes_is_the_golden() {
    let mut text = String::from("# What a write after a claim leaves behind, by what is there.\n");
    write!(text, "{:<38}", "#").unwrap();
    text.push_str(&SEEN.map(|words| format!("{words:<24}")).concat());
    text = format!("{}\n", text.trim_end());
    for verb in VERBS {
        for (permit, token, fence) in PERMITS {
            write!(text, "{verb:<24}{permit:<14}").unwrap();
            let row = SEEN.map(|words| format!("{:<24}", word(&met(verb, words, token, fence))));
            text.push_str(&row.concat());
            text = format!("{}\n", text.trim_end_matches(' '));
        }
    }
    golden("settle.txt", include_str!("testdata/settle.txt"), &text);
}

#[track_caller]
fn written(settle: Settle) -> Record {
    match settle {
        Settle::Write(next) => *next,
        other => panic!("a write was promised: {other:?}"),
    }
}

#[test]
fn a_renewal_changes_the_lease_alone() {
    let running = seen("running, lease over").unwrap();
    let next = written(renew(Some(&running), OWN, FENCE, LEASE * 2, NOW));
    let lease = Lease { renewed_at: NOW, length: LEASE * 2 };
    assert_eq!(next, Record { lease, ..running });
}

#[test]
fn a_completion_keeps_the_permit_and_counts_its_time_from_now() {
    let running = seen("running").unwrap();
    let next = written(met("complete done", "running", OWN, FENCE));
    let wanted = Record {
        state: State::Done,
        settled_at: Some(NOW),
        reason: Some("why".into()),
        outcome: finish(FinishKind::Done).outcome,
        pointer: finish(FinishKind::Done).outcome.unwrap().pointer,
        replay_until: NOW.after(REPLAY),
        remember_until: NOW.after(REMEMBER),
        ..running
    };
    assert_eq!(next, wanted);
    let hasty = Finish { remember_for: Duration::ZERO, ..finish(FinishKind::Done) };
    let next = written(complete(seen("running").as_ref(), OWN, FENCE, &hasty, NOW));
    assert_eq!(next.remember_until, next.replay_until, "memory is never shorter than replay");
}

#[test]
fn a_doubt_keeps_no_outcome_and_is_remembered_for_ever() {
    let running = seen("running").unwrap();
    let next = written(met("complete unknown", "running", OWN, FENCE));
    let wanted = Record {
        state: State::Unknown,
        settled_at: Some(NOW),
        reason: Some("why".into()),
        ..running
    };
    assert_eq!(next, wanted);
}

#[test]
fn a_release_compares_where_a_run_may_have_acted() {
    for (takeovers, carried, asked, compares) in [
        (0, false, false, false),
        (0, false, true, true),
        (0, true, false, true),
        (1, false, false, true),
    ] {
        let running = Record { takeovers, compare: carried, ..seen("running").unwrap() };
        let next = written(release(Some(&running), &given(OWN, None, asked), NOW));
        assert_eq!(next.compare, compares, "{takeovers}, {carried}, {asked}");
        assert_eq!((next.outcome, next.remember_until), (None, NOW.after(REMEMBER)));
        assert_eq!((next.token, next.incarnation), (OWN, 0));
    }
}

#[test]
fn the_sweep_drops_what_is_over_and_nothing_else() {
    let tick = Duration::from_micros(1);
    let ended = [State::Done, State::Failed];
    for state in [State::Done, State::Failed, State::Open, State::Running, State::Unknown] {
        let at = |replay_until, remember_until, kept: bool| {
            let mut record = Record { replay_until, remember_until, ..record(state) };
            record.outcome = kept.then(|| Outcome::new(200, ""));
            sweep(&record, NOW)
        };
        let unfinished = matches!(state, State::Running | State::Unknown);
        let is = |decided, wanted| {
            assert_eq!(decided, if unfinished { Sweep::Keep } else { wanted }, "{state}");
        };
        let forget = if ended.contains(&state) { Sweep::Forget } else { Sweep::Keep };
        is(at(NOW.after(tick), NOW.after(tick), true), Sweep::Keep);
        is(at(NOW, NOW.after(tick), true), forget);
        is(at(NOW, NOW.after(tick), false), Sweep::Keep);
        is(at(NOW, NOW, false), Sweep::Delete);
        is(at(NOW, NOW, true), Sweep::Delete);
        assert_eq!(sweepable(state), !unfinished);
    }
}
