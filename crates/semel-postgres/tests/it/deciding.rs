//! The functions decide as `semel::decide` does: random records and random asks go through both.

use std::time::Duration;

use semel::{
    Fence, Fingerprint, IntentId, Key, Lease, Operation, Outcome, Permit, Phase, Record, Refusal,
    Scope, State, Tenant, Timestamp, Token, codec,
    decide::{self, Ask, Compare, Decision, Finish, FinishKind, OnLost, ReleaseAsk, Settle, Sweep},
    fingerprint::PlanId,
    outcome::Pointer,
    permit,
};
use semel_testkit::{SeededEntropy, servers::Major};

use crate::{
    caller::{Caller, Cells},
    fixture::Fixture,
};

const NOW: u64 = 1_800_000_000_000_000;
const CASES: usize = 300;

/// A schema whose time stands still, and chance.
struct Bench {
    caller: Caller,
    chance: SeededEntropy,
}

impl Bench {
    async fn new(major: Major) -> Self {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        let still = format!(
            "CREATE OR REPLACE FUNCTION semel.now_us() RETURNS bigint LANGUAGE sql VOLATILE
             AS 'SELECT {NOW}::bigint'"
        );
        caller.ok(&still).await;
        Self { caller, chance: SeededEntropy::printed() }
    }

    fn one_of<T: Clone>(&self, of: &[T]) -> T {
        of[usize::try_from(self.chance.below(of.len() as u64)).unwrap()].clone()
    }

    fn instant(&self) -> Timestamp {
        let near = [NOW - 60_000_000, NOW - 1, NOW, NOW + 1, NOW + 60_000_000];
        Timestamp::from_micros(self.one_of(&near))
    }

    fn fingerprint(&self) -> Fingerprint {
        let foreign = Fingerprint::new(PlanId::new([1; 8]), [2; 32]);
        self.one_of(&[of("pay 10"), of("pay 10"), of("pay 11"), foreign])
    }

    fn record(&self) -> Record {
        let states = [State::Done, State::Failed, State::Open, State::Running, State::Unknown];
        let state = self.one_of(&states);
        let ended = matches!(state, State::Done | State::Failed);
        let replay_until = self.instant();
        let outcome = Outcome::new(201, "{}").header("link", "<a>").pointer("payment", "pay_7");
        let kept =
            ended && (replay_until > Timestamp::from_micros(NOW) || self.one_of(&[true, false]));
        let text = |some: bool, text: &str| some.then(|| Box::from(text));
        Record {
            id: id(),
            state,
            token: Token::from_bytes([self.one_of(&[1, 2]); 16]),
            fence: Fence::new(self.one_of(&[7, NOW - 1, NOW, NOW + 5])),
            fingerprint: self.fingerprint(),
            lease: Lease {
                renewed_at: self.instant(),
                length: Duration::from_micros(self.one_of(&[
                    0,
                    1,
                    60_000_000,
                    i64::MAX.unsigned_abs(),
                ])),
            },
            takeovers: self.one_of(&[0, 1, 2]),
            compare: self.one_of(&[true, false]),
            incarnation: self.one_of(&[0, 1]),
            created_at: self.instant(),
            claimed_at: self.instant(),
            settled_at: (state != State::Running).then(|| self.instant()),
            claimed_by: text(self.one_of(&[true, false]), "request-1"),
            reason: text(state == State::Unknown, "timeout"),
            resolved_by: self.one_of(&[None, None, Some([3; 16])]),
            pointer: ended.then(|| Pointer { kind: "payment".into(), id: "pay_7".into() }),
            outcome: kept.then_some(outcome),
            replay_until: if ended { replay_until } else { Timestamp::MAX },
            remember_until: if ended || state == State::Open {
                self.instant().max(if ended { replay_until } else { Timestamp::default() })
            } else {
                Timestamp::MAX
            },
        }
    }

    /// Begins a transaction in which this is the record, if any.
    async fn begin(&self, record: Option<&Record>) {
        self.caller.ok("BEGIN").await;
        if let Some(record) = record {
            let values: Vec<_> = cells(record).iter().map(quoted).collect();
            let write = format!(
                "INSERT INTO semel.record (tenant, operation, key, {COLUMNS})
                 VALUES ('acme', 'pay', 'k', {})",
                values.join(", ")
            );
            self.caller.ok(&write).await;
        }
    }

    /// Returns the record as it is now, with its lease as last renewed, and rolls back.
    async fn end(&self) -> Option<Cells> {
        let rows = self.caller.ok(&format!("SELECT {COLUMNS} FROM semel.seen")).await;
        self.caller.ok("ROLLBACK").await;
        rows.into_iter().next()
    }
}

fn of(content: &str) -> Fingerprint {
    Fingerprint::of_bytes(content.as_bytes())
}

fn id() -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new("k").unwrap())
}

const COLUMNS: &str =
    "state, token, fence, plan, digest, renewed_at_us, lease_us, takeovers, compare,
    incarnation, created_at_us, claimed_at_us, settled_at_us, claimed_by, reason, resolved_by,
    pointer_kind, pointer_id, replay_until_us, remember_until_us, sweep_at_us, outcome";

/// The columns of a record, as PostgreSQL writes them.
fn cells(record: &Record) -> Cells {
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("\\x{digits}"))
    };
    let at = |at: Timestamp| Some(at.as_micros().to_string());
    let pointer = record.pointer.as_ref();
    let sweep_at = match record.state {
        State::Running | State::Unknown => None,
        State::Done | State::Failed if record.outcome.is_some() => {
            at(record.replay_until.min(record.remember_until))
        }
        _ => at(record.remember_until),
    };
    vec![
        Some(record.state.as_str().to_owned()),
        hex(record.token.as_bytes()),
        Some(record.fence.get().to_string()),
        hex(record.fingerprint.plan().as_bytes()),
        hex(record.fingerprint.digest()),
        at(record.lease.renewed_at),
        Some(record.lease.length.as_micros().to_string()),
        Some(record.takeovers.to_string()),
        Some(if record.compare { "t" } else { "f" }.to_owned()),
        Some(record.incarnation.to_string()),
        at(record.created_at),
        at(record.claimed_at),
        record.settled_at.and_then(at),
        record.claimed_by.as_deref().map(str::to_owned),
        record.reason.as_deref().map(str::to_owned),
        record.resolved_by.as_ref().and_then(|id| hex(id)),
        pointer.map(|pointer| pointer.kind.to_string()),
        pointer.map(|pointer| pointer.id.to_string()),
        at(record.replay_until),
        at(record.remember_until),
        sweep_at,
        record.outcome.as_ref().and_then(|outcome| hex(&codec::encode(outcome))),
    ]
}

fn quoted(cell: &Option<String>) -> String {
    cell.as_ref().map_or_else(|| "NULL".to_owned(), |cell| format!("'{cell}'"))
}

/// The word for a decision, and the record that it leaves.
fn expected(seen: Option<&Record>, ask: &Ask, floor: Fence) -> (String, Option<Record>) {
    let now = Timestamp::from_micros(NOW);
    let word = |refusal: &Refusal| refusal.code().to_owned();
    let same = seen.cloned();
    match decide::claim(seen, ask, now) {
        Decision::Grant(grant) => {
            ("run".to_owned(), Some(decide::grant(seen, ask, grant, floor, now)))
        }
        Decision::Lose(refusal) => (word(&refusal), seen.map(|seen| decide::lose(seen, now))),
        Decision::Refuse(refusal) => (word(&refusal), same),
        Decision::RefuseAndRewind(refusal) => {
            (word(&refusal), seen.map(|seen| decide::rewind(seen, now)))
        }
        Decision::Replay => ("replay".to_owned(), same),
        other => panic!("the token is new, and yet {other:?}"),
    }
}

#[tokio::test]
async fn a_claim_meets_what_the_crate_decides() {
    for major in Major::ALL {
        let bench = Bench::new(major).await;
        let floor = NOW - 3;
        bench.caller.ok(&format!("UPDATE semel.meta SET floor = {floor}")).await;
        for _ in 0..CASES {
            let seen = (bench.chance.below(20) > 0).then(|| bench.record());
            let (compare, compare_word) = bench
                .one_of(&[(Compare::Strict, "strict"), (Compare::ReplayFirst, "replay-first")]);
            let (on_lost, on_lost_word) = bench.one_of(&[
                (OnLost::Hold, "hold"),
                (OnLost::Reconcile, "reconcile"),
                (OnLost::Rerun, "rerun"),
            ]);
            bench.begin(seen.as_ref()).await;
            let claim = format!(
                "SELECT decision, permit, ask_first, claimed_at
                 FROM semel.claim('acme', 'pay', 'k', 'pay 10', claimed_by => 'mine',
                     compare => '{compare_word}', on_lost => '{on_lost_word}')"
            );
            let told = bench.caller.ok(&claim).await.remove(0);
            let permit = told[1].as_ref().map(|text| permit::decode(text).unwrap());
            let ask = Ask {
                id: id(),
                token: permit.as_ref().map_or(Token::from_bytes([9; 16]), |permit| permit.token),
                fingerprint: of("pay 10"),
                older: Vec::new(),
                not_after: Timestamp::MAX,
                lease: Duration::ZERO,
                on_lost,
                compare,
                claimed_by: Some("mine".into()),
            };
            let (decision, left) = expected(seen.as_ref(), &ask, Fence::new(floor));
            assert_eq!(told[0].as_deref(), Some(&*decision), "{seen:?} {ask:?}");
            let mut cells = left.as_ref().map(cells);
            if decision == "run" {
                assert_eq!(permit, left.map(|left| left.permit()), "{seen:?} {ask:?}");
                let now = Timestamp::from_micros(NOW);
                let afresh = seen.as_ref().is_none_or(|seen| seen.phase(now) == Phase::Absent);
                let asks = if on_lost == OnLost::Reconcile && !afresh { "t" } else { "f" };
                assert_eq!(told[2].as_deref(), Some(asks), "{seen:?} {ask:?}");
                // The transaction is the lease.
                cells.as_mut().unwrap()[6] = None;
            }
            assert_eq!(bench.end().await, cells, "{seen:?} {ask:?}");
        }
    }
}

#[tokio::test]
async fn a_permit_ends_what_the_crate_lets_it_end() {
    for major in Major::ALL {
        let bench = Bench::new(major).await;
        for _ in 0..CASES {
            settled(&bench).await;
        }
    }
}

async fn settled(bench: &Bench) {
    let now = Timestamp::from_micros(NOW);
    let seen = bench.record();
    let token = bench.one_of(&[seen.token, seen.token, seen.token, Token::from_bytes([9; 16])]);
    let fence = bench.one_of(&[seen.fence, seen.fence, seen.fence, Fence::new(1)]);
    let permit = Permit { id: id(), token, fence, incarnation: seen.incarnation };
    let arguments = format!("'{}', 'acme', 'pay'", permit::encode(&permit));
    let (replay_for, remember_for) = bench.one_of(&[(60, 3_600), (3_600, 60), (0, 0)]);
    let spans = format!("replay_for => '{replay_for} s', remember_for => '{remember_for} s'");
    let (replay_for, remember_for) =
        (Duration::from_secs(replay_for), Duration::from_secs(remember_for));
    let finish = |kind| Finish {
        kind,
        outcome: Some(Outcome::new(200, "new").pointer("payment", "pay_8")),
        reason: None,
        replay_for,
        remember_for,
    };
    let outcome = "200, body => 'new', pointer_kind => 'payment', pointer_id => 'pay_8'";
    let compare = bench.one_of(&[true, false]);
    let ask = ReleaseAsk {
        token,
        fence: Some(fence),
        compare,
        reason: Some("no-stock".into()),
        remember_for,
    };
    let lease = Duration::from_secs(5);
    let some = Some(&seen);
    let (call, settle, already) = bench.one_of(&[
        (
            format!("complete({arguments}, {outcome}, {spans})"),
            decide::complete(some, token, fence, &finish(FinishKind::Done), now),
            Err("SM009"),
        ),
        (
            format!("fail({arguments}, {outcome}, {spans})"),
            decide::complete(some, token, fence, &finish(FinishKind::Failed), now),
            Err("SM009"),
        ),
        (
            format!("release({arguments}, 'no-stock', {compare}, '{} s')", remember_for.as_secs()),
            decide::release(some, &ask, now),
            Ok("already"),
        ),
        (
            format!("renew({arguments}, '5 s')"),
            decide::renew(some, token, fence, lease, now),
            Err("never"),
        ),
    ]);
    bench.begin(some).await;
    bench.caller.ok("SAVEPOINT s").await;
    let told = bench.caller.say(&format!("SELECT semel.{call}")).await;
    let told = told.map(|rows| rows[0][0].clone().unwrap());
    if told.is_err() {
        bench.caller.ok("ROLLBACK TO s").await;
    }
    let written = if call.starts_with("renew") { "renewed" } else { "stored" };
    let (expected, left) = match settle {
        Settle::Already => (already, seen.clone()),
        Settle::Stale => (Err("SM001"), seen.clone()),
        Settle::Write(record) => (Ok(written), *record),
    };
    let told = told.as_deref().map_err(String::as_str);
    assert_eq!(told, expected, "{call} {seen:?}");
    assert_eq!(bench.end().await, Some(cells(&left)), "{call} {seen:?}");
}

#[tokio::test]
async fn a_sweep_drops_what_the_crate_drops() {
    let bench = Bench::new(Major::V18).await;
    for _ in 0..CASES {
        let seen = bench.record();
        bench.begin(Some(&seen)).await;
        let told = bench.caller.ok("SELECT forgotten, deleted FROM semel.sweep()").await.remove(0);
        let told: Vec<_> = told.iter().map(|cell| cell.as_deref().unwrap()).collect();
        let (counts, left) = match decide::sweep(&seen, Timestamp::from_micros(NOW)) {
            Sweep::Delete => (["0", "1"], None),
            Sweep::Forget => (["1", "0"], Some(Record { outcome: None, ..seen.clone() })),
            Sweep::Keep => (["0", "0"], Some(seen.clone())),
        };
        assert_eq!(told, counts, "{seen:?}");
        assert_eq!(bench.end().await, left.as_ref().map(cells), "{seen:?}");
    }
}
