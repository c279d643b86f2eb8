//! What a claim meets: every state, token, content, policy and lateness.

use std::{fmt::Write, time::Duration};

use super::{LEASE, NOW, OTHER, OWN, before, by_plan, golden, id, record};
use crate::{
    clock::Timestamp,
    decide::{
        Ask, Compare, Decision, Grant, OnLost, Refusal, asks_first, claim, grant, lose, rewind,
    },
    record::{Fence, Lease, Record, State},
};

/// What the store sees, in words.
const SEEN: [&str; 12] = [
    "nothing",
    "running, lease live",
    "running, renewed in the future",
    "running, lease over",
    "unknown",
    "done",
    "failed",
    "done, forgotten",
    "done, memory over",
    "open after a clean release",
    "open, may have acted",
    "open, memory over",
];
const TOKENS: [&str; 2] = ["other", "own"];
const CONTENT: [&str; 5] =
    ["same", "other", "same by an older plan", "other by an older plan", "no plan in common"];
const POLICIES: [(OnLost, Compare); 6] = [
    (OnLost::Hold, Compare::Strict),
    (OnLost::Rerun, Compare::Strict),
    (OnLost::Reconcile, Compare::Strict),
    (OnLost::Hold, Compare::ReplayFirst),
    (OnLost::Rerun, Compare::ReplayFirst),
    (OnLost::Reconcile, Compare::ReplayFirst),
];

fn seen(words: &str) -> Option<Record> {
    let tick = Duration::from_micros(1);
    Some(match words {
        "nothing" => return None,
        "running, lease live" => {
            let lease = Lease { renewed_at: before(LEASE - tick), length: LEASE };
            Record { lease, ..record(State::Running) }
        }
        "running, renewed in the future" => {
            let lease = Lease { renewed_at: NOW.after(tick), length: LEASE };
            Record { lease, ..record(State::Running) }
        }
        "running, lease over" => {
            let lease = Lease { renewed_at: before(LEASE), length: LEASE };
            Record { lease, ..record(State::Running) }
        }
        "unknown" => record(State::Unknown),
        "done" => Record { replay_until: NOW.after(tick), ..record(State::Done) },
        "failed" => Record { replay_until: NOW.after(tick), ..record(State::Failed) },
        "done, forgotten" => {
            Record { replay_until: NOW, remember_until: NOW.after(tick), ..record(State::Done) }
        }
        "done, memory over" => {
            Record { replay_until: NOW, remember_until: NOW, ..record(State::Done) }
        }
        "open after a clean release" => record(State::Open),
        "open, may have acted" => Record { compare: true, ..record(State::Open) },
        "open, memory over" => Record { compare: true, remember_until: NOW, ..record(State::Open) },
        other => panic!("no record for {other}"),
    })
}

fn asked(token: &str, content: &str, policy: (OnLost, Compare), late: bool) -> Ask {
    let (fingerprint, older) = match content {
        "same" => (by_plan(1, 1), vec![]),
        "other" => (by_plan(1, 2), vec![]),
        "same by an older plan" => (by_plan(2, 9), vec![by_plan(3, 9), by_plan(1, 1)]),
        "other by an older plan" => (by_plan(2, 1), vec![by_plan(3, 1), by_plan(1, 2)]),
        _ => (by_plan(2, 1), vec![by_plan(3, 1)]),
    };
    Ask {
        id: id(),
        token: if token == "own" { OWN } else { OTHER },
        fingerprint,
        older,
        not_after: if late { before(Duration::from_micros(1)) } else { NOW },
        lease: LEASE,
        on_lost: policy.0,
        compare: policy.1,
        claimed_by: None,
    }
}

/// The answer in one word.
fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Grant(Grant::Fresh) => "fresh",
        Decision::Grant(Grant::Reopened) => "reopen",
        Decision::Grant(Grant::TakenOver { ask_first: false }) => "take",
        Decision::Grant(Grant::TakenOver { ask_first: true }) => "ask",
        Decision::Lose(Refusal::Unknown { .. }) => "lose",
        Decision::Refuse(Refusal::Forgotten { .. }) => "forgotten",
        Decision::Refuse(Refusal::InProgress { .. }) => "wait",
        Decision::Refuse(Refusal::Incomparable { .. }) => "incomparable",
        Decision::Refuse(Refusal::Mismatch) => "mismatch",
        Decision::Refuse(Refusal::Unknown { .. }) => "unknown",
        Decision::RefuseAndRewind(Refusal::InProgress { .. }) => "rewind",
        Decision::Replay => "replay",
        Decision::Stale => "stale",
        Decision::TooLate => "late",
        Decision::Yours => "yours",
        Decision::Lose(_)
        | Decision::Refuse(Refusal::ReferenceExists { .. })
        | Decision::RefuseAndRewind(_) => "a refusal that does not belong",
    }
}

/// The answer that the design promises.
fn promised(
    seen: &str,
    token: &str,
    content: &str,
    (on_lost, compare): (OnLost, Compare),
    late: bool,
) -> &'static str {
    let own = token == "own";
    // A repeat by the last token is answered "yours, already" or "stale".
    if own && seen.starts_with("running") {
        return "yours";
    }
    if own && seen.starts_with("open") {
        return "stale";
    }
    // Retention is judged by the time of reading: past it there is nothing to compare with.
    if seen == "nothing" || seen.ends_with("memory over") {
        return if late { "late" } else { "fresh" };
    }
    // Mismatch comes first, also while running. A clean release does not compare. Under replay-first
    // only what would run again compares: a lost holder that would be followed, and an open intent
    // whose earlier run may have acted.
    let compares = match seen {
        "open after a clean release" => false,
        "open, may have acted" => true,
        "running, lease live" | "running, renewed in the future" | "running, lease over" => {
            compare == Compare::Strict || on_lost != OnLost::Hold
        }
        _ => compare == Compare::Strict,
    };
    if compares {
        match content {
            "other" | "other by an older plan" => return "mismatch",
            "no plan in common" => return "incomparable",
            _ => {}
        }
    }
    match seen {
        "unknown" => "unknown",
        "done, forgotten" => "forgotten",
        "running, lease live" => "wait",
        "running, renewed in the future" => "rewind",
        "done" | "failed" => "replay",
        // From here on something would be written, which a late claim must not do.
        _ if late => "late",
        "open after a clean release" | "open, may have acted" => "reopen",
        "running, lease over" if on_lost == OnLost::Hold => "lose",
        "running, lease over" if on_lost == OnLost::Rerun => "take",
        "running, lease over" => "ask",
        other => panic!("nothing is promised for {other}"),
    }
}

fn every_case(mut check: impl FnMut(&'static str, &'static str, &'static str, usize, bool)) {
    for words in SEEN {
        for token in TOKENS.into_iter().filter(|token| words != "nothing" || *token == "other") {
            for content in CONTENT {
                for policy in 0..POLICIES.len() {
                    check(words, token, content, policy, false);
                    check(words, token, content, policy, true);
                }
            }
        }
    }
}

#[test]
fn every_claim_meets_what_the_design_promises() {
    let mut cases = 0;
    every_case(|words, token, content, policy, late| {
        let policy = POLICIES[policy];
        let ask = asked(token, content, policy, late);
        let met = claim(seen(words).as_ref(), &ask, NOW);
        let promised = promised(words, token, content, policy, late);
        let case = format!("{words}; {token} token; {content}; {policy:?}; late: {late}");
        assert_eq!(word(&met), promised, "{case}");
        cases += 1;
    });
    assert_eq!(cases, (11 * 2 + 1) * 5 * 6 * 2);
}

#[test]
fn the_table_of_claims_is_the_golden() {
    let mut text = String::from(
        "# What a claim meets. In each column: in time, late (where it differs).\n\
         # columns: hold, rerun, reconcile; then the same under replay-first\n",
    );
    let mut row = String::new();
    every_case(|words, token, content, policy, late| {
        let met = claim(seen(words).as_ref(), &asked(token, content, POLICIES[policy], late), NOW);
        match (policy, late) {
            (0, false) => {
                row.clear();
                write!(text, "{words:<31} {token:<6}{content:<24}").unwrap();
                row.push_str(word(&met));
            }
            (_, false) => row = word(&met).to_owned(),
            (_, true) => {
                if row != word(&met) {
                    write!(row, ",{}", word(&met)).unwrap();
                }
                let end = if policy + 1 == POLICIES.len() { "\n" } else { "" };
                let cell = format!("{row:<13}");
                write!(text, "{}{end}", if end.is_empty() { &cell } else { &row }).unwrap();
            }
        }
    });
    golden("claim.txt", include_str!("testdata/claim.txt"), &text);
}

/// Whatever is late writes nothing, and whatever is refused moves nothing but a lease to now.
#[test]
fn a_late_claim_writes_nothing_but_a_rewound_lease() {
    every_case(|words, token, content, policy, _| {
        let late = claim(seen(words).as_ref(), &asked(token, content, POLICIES[policy], true), NOW);
        assert!(!matches!(late, Decision::Grant(_) | Decision::Lose(_)), "{words}: {late:?}");
    });
}

#[test]
fn a_claim_is_late_after_its_instant_and_not_at_it() {
    let mut ask = asked("other", "same", POLICIES[0], false);
    ask.not_after = NOW;
    assert_eq!(claim(None, &ask, NOW), Decision::Grant(Grant::Fresh));
    assert_eq!(claim(None, &ask, NOW.after(Duration::from_micros(1))), Decision::TooLate);
}

#[test]
fn a_refusal_tells_what_the_record_knows() {
    let ask = asked("other", "same", POLICIES[0], false);
    let running = seen("running, lease live").unwrap();
    let told = Refusal::InProgress {
        claimed_at: Some(running.claimed_at),
        lease_left: Duration::from_micros(1),
        claimed_by: Some("request-1".into()),
    };
    assert_eq!(claim(Some(&running), &ask, NOW), Decision::Refuse(told));
    let ahead = Record {
        lease: Lease { renewed_at: NOW.after(LEASE * 9), length: LEASE },
        ..record(State::Running)
    };
    match claim(Some(&ahead), &ask, NOW) {
        Decision::RefuseAndRewind(Refusal::InProgress { lease_left, .. }) => {
            assert_eq!(lease_left, LEASE, "never longer than the lease");
        }
        other => panic!("{other:?}"),
    }
    let forgotten = seen("done, forgotten").unwrap();
    let told =
        Refusal::Forgotten { settled_at: forgotten.settled_at, pointer: forgotten.pointer.clone() };
    assert_eq!(claim(Some(&forgotten), &ask, NOW), Decision::Refuse(told));
}

/// A promoted standby's clock may be behind what the sweep has judged by.
#[test]
fn an_outcome_that_was_dropped_stays_forgotten_when_the_clock_falls_back() {
    let swept = Record { outcome: None, ..seen("done").unwrap() };
    assert!(swept.replay_until > NOW);
    let ask = asked("other", "same", POLICIES[0], false);
    assert!(matches!(claim(Some(&swept), &ask, NOW), Decision::Refuse(Refusal::Forgotten { .. })));
}

#[test]
fn under_reconcile_alone_and_after_any_run_a_holder_asks_first() {
    let over = |ask_first| Some(Grant::TakenOver { ask_first });
    for (grant, on_lost, asks) in [
        (Some(Grant::Fresh), OnLost::Reconcile, false),
        (Some(Grant::Reopened), OnLost::Reconcile, true),
        (Some(Grant::Reopened), OnLost::Rerun, false),
        (Some(Grant::Reopened), OnLost::Hold, false),
        (over(true), OnLost::Reconcile, true),
        (over(false), OnLost::Rerun, false),
        (None, OnLost::Reconcile, true),
        (None, OnLost::Rerun, false),
        (None, OnLost::Hold, false),
    ] {
        assert_eq!(asks_first(grant, on_lost), asks, "{grant:?} under {on_lost:?}");
    }
}

#[test]
fn a_grant_writes_a_running_record_and_carries_what_it_must() {
    let floor = Fence::new(NOW.as_micros() + 50);
    let ask = asked("other", "other", POLICIES[1], false);
    let fresh = grant(None, &ask, Grant::Fresh, floor, NOW);
    assert_eq!(
        (fresh.state, fresh.token, fresh.fence.get()),
        (State::Running, OTHER, floor.get() + 1)
    );
    assert_eq!((fresh.incarnation, fresh.takeovers, fresh.compare), (0, 0, false));
    assert_eq!((fresh.created_at, fresh.claimed_at, fresh.lease.renewed_at), (NOW, NOW, NOW));

    // What is over leaves its fence behind, and nothing else.
    let over = Record {
        fence: Fence::new(u64::MAX - 1),
        incarnation: 5,
        takeovers: 3,
        ..seen("done, memory over").unwrap()
    };
    let anew = grant(Some(&over), &ask, Grant::Fresh, Fence::default(), NOW);
    assert_eq!(anew.fence.get(), u64::MAX);
    assert_eq!((anew.incarnation, anew.takeovers, anew.outcome, anew.pointer), (0, 0, None, None));

    let lost = Record { takeovers: 2, incarnation: 4, ..seen("running, lease over").unwrap() };
    let same = asked("other", "same by an older plan", POLICIES[1], false);
    let taken = grant(Some(&lost), &same, Grant::TakenOver { ask_first: false }, floor, NOW);
    assert_eq!((taken.takeovers, taken.incarnation, taken.created_at), (3, 4, lost.created_at));
    assert_eq!(taken.fingerprint, lost.fingerprint, "the first fingerprint stays");
    assert_eq!(taken.remember_until, Timestamp::MAX);
}

#[test]
fn a_reopened_intent_begins_a_new_incarnation_with_other_content_alone() {
    let reopen = |record: &Record, content| {
        let ask = asked("other", content, POLICIES[0], false);
        let next = grant(Some(record), &ask, Grant::Reopened, Fence::default(), NOW);
        (next.incarnation, next.takeovers, next.compare, next.fingerprint == ask.fingerprint)
    };
    let clean = Record { incarnation: 1, ..seen("open after a clean release").unwrap() };
    assert_eq!(reopen(&clean, "same"), (1, 0, false, true));
    assert_eq!(reopen(&clean, "other"), (2, 0, false, true));
    assert_eq!(reopen(&clean, "no plan in common"), (2, 0, false, true));
    let acted = Record { takeovers: 1, ..seen("open, may have acted").unwrap() };
    assert_eq!(reopen(&acted, "same"), (0, 1, true, true));
}

#[test]
fn losing_and_rewinding_change_one_thing() {
    let running = seen("running, lease over").unwrap();
    let lost = lose(&running, NOW);
    let wanted = Record {
        state: State::Unknown,
        settled_at: Some(NOW),
        reason: Some("lease-over".into()),
        ..running
    };
    assert_eq!(lost, wanted);
    let ahead = seen("running, renewed in the future").unwrap();
    let rewound = rewind(&ahead, NOW);
    let lease = Lease { renewed_at: NOW, length: LEASE };
    assert_eq!(rewound, Record { lease, ..ahead });
}

#[test]
fn the_next_fence_is_larger_than_all_three() {
    for (last, floor, now) in [(5, 3, 4), (3, 5, 4), (3, 4, 5), (5, 5, 5), (0, 0, 0)] {
        let next =
            Fence::next(Some(Fence::new(last)), Fence::new(floor), Timestamp::from_micros(now));
        assert!(next.get() > last && next.get() > floor && next.get() >= now);
    }
}
