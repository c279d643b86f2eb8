//! Runs that their application may end by itself, in a transaction of its own.

use std::{sync::Arc, time::Duration};

use semel::{
    Engine, Error, Outcome, Phase, Policy, State,
    decide::{Finish, FinishKind, Grant, OnLost, ReleaseAsk},
    engine::{Otherwise, Settled},
    store::{Completed, ReleaseAnswer, Store},
};
use semel_testkit::{Fault, HeldBridge, Verb};
use tokio::task::JoinHandle;

use crate::world::{LEASE, World, call, created, ended, id, policy, refused, replayed, running};

const REASON: &str = "status-500";

/// A world whose bridge a test can hold as an application's open transaction does.
struct Bridged {
    world: World,
    bridge: Arc<HeldBridge>,
    engine: Engine,
}

impl Bridged {
    fn new() -> Self {
        let world = World::new();
        let bridge = HeldBridge::over(world.memory.clone());
        let engine = Engine::builder(world.store.clone())
            .clock(world.clock.clone())
            .bridge(bridge.clone())
            .build();
        Self { world, bridge, engine }
    }

    async fn hold(&self, policy: Policy) -> semel::Holder {
        running(self.engine.begin(call("k", policy)).await.unwrap())
    }

    /// Completes as the application does: past the engine.
    async fn application(&self, permit: &semel::Permit, kind: FinishKind) -> Completed {
        let finish = Finish {
            kind,
            outcome: Some(created()),
            reason: None,
            replay_for: Duration::from_secs(60),
            remember_for: Duration::from_secs(60),
        };
        self.world.memory.complete(permit.clone(), finish).await.unwrap()
    }

    async fn gives_back(&self, permit: &semel::Permit) -> ReleaseAnswer {
        let ask = ReleaseAsk {
            token: permit.token,
            fence: Some(permit.fence),
            compare: false,
            reason: None,
            remember_for: Duration::from_secs(60),
        };
        self.world.memory.release(permit.id.clone(), ask).await.unwrap().answer
    }

    fn settling(
        &self,
        holder: semel::Holder,
        say: Otherwise,
    ) -> JoinHandle<Result<Settled, Error>> {
        let settling = holder.settle(say, REASON);
        tokio::spawn(settling)
    }

    async fn state(&self) -> (State, Option<Box<str>>) {
        let record = self.world.record("k").await.unwrap();
        (record.state, record.reason)
    }
}

/// What the application has stored is what is kept, whatever its answer made of it, and it is replayed.
#[tokio::test]
async fn what_the_application_completed_is_what_is_kept() {
    let says =
        [Otherwise::Breach, Otherwise::Doubt, Otherwise::Fail(created()), Otherwise::Release];
    for (say, kind) in says.into_iter().zip([FinishKind::Done, FinishKind::Failed].repeat(2)) {
        let on = Bridged::new();
        let holder = on.hold(policy(OnLost::Rerun)).await;
        assert_eq!(on.application(holder.permit(), kind).await, Completed::Stored);
        let Settled::Ended(record) = holder.settle(say, REASON).await.unwrap() else {
            panic!("the application has ended it");
        };
        assert_eq!(record.outcome, Some(created()));
        assert_eq!(on.engine.stats().breaches, 0);
        let next = on.engine.begin(call("k", policy(OnLost::Rerun))).await.unwrap();
        assert_eq!(replayed(next), created());
    }
}

/// What the application has not ended was rolled back: it is given back, under hold too.
#[tokio::test]
async fn what_was_rolled_back_is_given_back() {
    for on_lost in [OnLost::Hold, OnLost::Reconcile, OnLost::Rerun] {
        let on = Bridged::new();
        let holder = on.hold(policy(on_lost)).await;
        let permit = holder.permit().clone();
        let settled = holder.settle(Otherwise::Release, REASON).await;
        assert_eq!(settled.unwrap(), Settled::Otherwise);
        assert_eq!(on.state().await, (State::Open, Some(REASON.into())));
        // From here on the application's own completion fails, and so does its commit.
        assert_eq!(on.application(&permit, FinishKind::Done).await, Completed::Stale);
        let next = running(on.engine.begin(call("k", policy(on_lost))).await.unwrap());
        assert_eq!(next.grant(), Some(Grant::Reopened));
    }
}

/// An application that says it was done and did not complete is never run again by guess.
#[tokio::test]
async fn a_breach_of_contract_is_unknown_under_every_policy() {
    for on_lost in [OnLost::Hold, OnLost::Reconcile, OnLost::Rerun] {
        let on = Bridged::new();
        let holder = on.hold(policy(on_lost)).await;
        let settled = holder.settle(Otherwise::Breach, "not-completed").await;
        assert_eq!(settled.unwrap(), Settled::Otherwise);
        assert_eq!(on.state().await, (State::Unknown, Some("not-completed".into())));
        assert_eq!(on.engine.stats().breaches, 1);
        let next = on.engine.begin(call("k", policy(on_lost))).await.unwrap();
        assert_eq!(refused(next).code(), "unknown");
    }
}

/// What an application says of effects outside of its transaction is decided by `on_lost`.
#[tokio::test]
async fn doubt_follows_the_policy() {
    for (on_lost, state) in [
        (OnLost::Hold, State::Unknown),
        (OnLost::Rerun, State::Open),
        (OnLost::Reconcile, State::Running),
    ] {
        let on = Bridged::new();
        let settled = on.hold(policy(on_lost)).await.settle(Otherwise::Doubt, REASON).await;
        assert_eq!(settled.unwrap(), Settled::Otherwise);
        assert_eq!(on.state().await.0, state, "{on_lost:?}");
    }
}

/// A failure that the application calls final is kept by its holder.
#[tokio::test]
async fn a_final_failure_is_kept() {
    let on = Bridged::new();
    let failure = Outcome::new(402, "no money");
    let holder = on.hold(policy(OnLost::Hold)).await;
    let settled = holder.settle(Otherwise::Fail(failure.clone()), REASON).await;
    assert_eq!(settled.unwrap(), Settled::Otherwise);
    let next = on.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(replayed(next), failure);
}

/// While the application's transaction is open nothing is said, and its commit decides.
#[tokio::test]
async fn an_open_transaction_is_waited_for() {
    for commits in [true, false] {
        let on = Bridged::new();
        let holder = on.hold(policy(OnLost::Rerun)).await;
        let permit = holder.permit().clone();
        on.bridge.hold(true);
        let settling = on.settling(holder, Otherwise::Release);
        on.world.clock.run(Duration::from_secs(1)).await;
        on.bridge.looked(5).await;
        assert!(!settling.is_finished());
        assert_eq!(on.state().await.0, State::Running);
        if commits {
            on.application(&permit, FinishKind::Done).await;
        }
        on.bridge.hold(false);
        on.world.clock.run(Duration::from_secs(1)).await;
        let settled = ended(settling).await.unwrap();
        assert_eq!(matches!(settled, Settled::Ended(_)), commits, "{settled:?}");
        assert_eq!(on.state().await.0, if commits { State::Done } else { State::Open });
    }
}

/// A transaction that stays open past the bound leaves the holder's lease to end by itself: nothing
/// is written, and the application can still commit.
#[tokio::test]
async fn a_transaction_that_stays_open_past_the_bound_leaves_the_lease() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Rerun)).await;
    let permit = holder.permit().clone();
    on.bridge.hold(true);
    let settling = on.settling(holder, Otherwise::Release);
    on.world.clock.run(Duration::from_secs(31)).await;
    let error = ended(settling).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("not-stored", true));
    assert_eq!((on.state().await.0, on.engine.holding()), (State::Running, 0));
    assert_eq!(on.application(&permit, FinishKind::Done).await, Completed::Stored);
}

/// Settling goes on when whoever waits for it goes away, and the lease is kept meanwhile.
#[tokio::test]
async fn settling_outlives_whoever_waits_for_it() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Hold)).await;
    on.bridge.hold(true);
    drop(holder.settle(Otherwise::Release, REASON));
    on.world.clock.run(LEASE - Duration::from_secs(1)).await;
    let Phase::Stored(State::Running) = on.world.phase("k").await else { panic!("it is held") };
    assert!(
        !on.world.record("k").await.unwrap().lapsed(on.world.store.read(vec![]).await.unwrap().now)
    );
    on.bridge.hold(false);
    on.world.clock.run(Duration::from_secs(1)).await;
    assert_eq!(on.state().await.0, State::Open);
}

/// A look that fails is asked again, and nothing is said before one was answered.
#[tokio::test]
async fn a_look_that_is_lost_is_asked_again() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Rerun)).await;
    on.application(holder.permit(), FinishKind::Done).await;
    on.bridge.fail(3);
    let settling = on.settling(holder, Otherwise::Release);
    on.world.clock.run(Duration::from_secs(1)).await;
    assert!(matches!(ended(settling).await.unwrap(), Settled::Ended(_)));
    assert_eq!(on.state().await.0, State::Done);
}

/// An application that completes between the look and the release was first, and that is what is told.
#[tokio::test]
async fn a_completion_between_the_look_and_the_release_wins() {
    for (say, verb) in [
        (Otherwise::Release, Verb::Release),
        (Otherwise::Breach, Verb::Complete),
        (Otherwise::Fail(Outcome::new(402, "")), Verb::Complete),
    ] {
        let on = Bridged::new();
        let gate = semel_testkit::Gate::shut();
        on.world.store.next(verb, Fault::Delay(gate.clone()));
        let holder = on.hold(policy(OnLost::Rerun)).await;
        let permit = holder.permit().clone();
        let settling = on.settling(holder, say);
        gate.arrived(1).await;
        assert_eq!(on.application(&permit, FinishKind::Done).await, Completed::Stored);
        gate.open();
        let Settled::Ended(record) = ended(settling).await.unwrap() else {
            panic!("the application was first");
        };
        assert_eq!(record.outcome, Some(created()));
        assert_eq!(on.engine.stats().breaches, 0);
    }
}

/// What the application gave back in its transaction is told as such, and is free.
#[tokio::test]
async fn what_the_application_gave_back_is_free() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Hold)).await;
    assert_eq!(on.gives_back(holder.permit()).await, ReleaseAnswer::Stored);
    let settled = holder.settle(Otherwise::Breach, REASON).await;
    assert_eq!(settled.unwrap(), Settled::GivenBack);
    running(on.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap());
}

/// A holder that was overtaken ends nothing of its successor's, and is told.
#[tokio::test]
async fn an_overtaken_holder_is_told_and_changes_nothing() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Rerun)).await;
    on.world.store.always(Verb::Renew, Fault::LoseCall);
    on.world.clock.run(LEASE + Duration::from_secs(1)).await;
    let next = running(on.world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap());
    let stale = ended(on.settling(holder, Otherwise::Release)).await;
    assert_eq!(stale.unwrap_err().code(), "stale-permit");
    let record = on.world.record("k").await.unwrap();
    assert_eq!((record.permit(), record.state), (next.permit().clone(), State::Running));
    assert_eq!(on.engine.stats().conflicts, 0);
}

/// An engine that was not given the bridge of its store says nothing by guess.
#[tokio::test]
async fn without_a_bridge_nothing_is_said() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Rerun)).await;
    let error = holder.settle(Otherwise::Release, REASON).await.unwrap_err();
    assert_eq!(error.code(), "not-stored");
    assert_eq!(world.record("k").await.unwrap().state, State::Running);
    assert!(!world.engine.is_bridged());
}

/// Whoever waits for the holder is woken by what the application completed.
#[tokio::test]
async fn whoever_waits_is_woken_by_the_end() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Hold)).await;
    let engine = on.engine.clone();
    let patient = Policy { wait: Duration::from_secs(300), ..policy(OnLost::Hold) };
    let waiting = tokio::spawn(async move { engine.begin(call("k", patient)).await.unwrap() });
    on.world.settle().await;
    on.application(holder.permit(), FinishKind::Done).await;
    assert!(matches!(holder.settle(Otherwise::Breach, REASON).await.unwrap(), Settled::Ended(_)));
    assert_eq!(replayed(ended(waiting).await), created());
    assert_eq!(on.world.record("k").await.unwrap().id, id("k"));
}

/// A renewal that meets the application's own completion has lost nothing; one that meets another
/// holder has.
#[tokio::test]
async fn a_lease_that_the_application_ended_is_not_lost() {
    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Rerun)).await;
    on.application(holder.permit(), FinishKind::Done).await;
    on.world.clock.run(LEASE).await;
    assert!(!holder.lost().is_cancelled());
    assert_eq!(on.engine.stats().lost, 0);
    assert!(matches!(holder.settle(Otherwise::Breach, REASON).await, Ok(Settled::Ended(_))));

    let on = Bridged::new();
    let holder = on.hold(policy(OnLost::Rerun)).await;
    on.world.store.always(Verb::Renew, Fault::HangCall);
    on.world.clock.run(LEASE + LEASE).await;
    let other = on.world.other();
    drop(running(other.begin(call("k", policy(OnLost::Rerun))).await.unwrap()));
    on.world.store.heal();
    on.world.clock.run(LEASE).await;
    assert!(holder.lost().is_cancelled());
    assert_eq!(on.engine.stats().lost, 1);
}
