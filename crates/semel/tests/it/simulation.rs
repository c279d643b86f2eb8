//! Random callers, faults and clocks on several engines over one store. A failure prints its seed.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use semel::{
    Begun, Clock, Engine, Holder, IntentId, Outcome, Phase, Policy, State, Store,
    decide::{OnLost, ResolveAsk, Verdict},
    engine::Ended,
    entropy::Entropy,
    store::{Actor, memory::MemoryStore},
};
use semel_testkit::{
    Fault, FaultyStore, Gate, ManualClock, SeededEntropy, Verb,
    history::{History, Promise, Told},
};
use tokio::task::JoinSet;

use crate::world::{LEASE, call, id, policy};

const ENGINES: usize = 3;
const KEYS: u64 = 4;
const CALLERS: usize = 24;
const VERBS: [Verb; 5] = [Verb::Claim, Verb::Complete, Verb::Read, Verb::Release, Verb::Renew];

/// Engines that share one store, each behind faults of its own.
struct Simulation {
    clock: Arc<ManualClock>,
    memory: Arc<MemoryStore>,
    engines: Vec<(Engine, Arc<FaultyStore>)>,
    chance: Arc<SeededEntropy>,
    history: Arc<History>,
    doubts: Arc<Doubts>,
    gates: Vec<Arc<Gate>>,
}

/// The intents of which somebody said, or had to leave open, that nobody can say.
#[derive(Debug, Default)]
struct Doubts(Mutex<HashSet<IntentId>>);

impl Doubts {
    fn note(&self, id: &IntentId) {
        self.0.lock().unwrap().insert(id.clone());
    }

    fn holds(&self, id: &IntentId) -> bool {
        self.0.lock().unwrap().contains(id)
    }
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        let memory = Arc::new(MemoryStore::with_clock(clock.clone()));
        let chance = Arc::new(SeededEntropy::new(seed));
        let mut capabilities = memory.capabilities();
        capabilities.shared = true;
        let engine = |_| {
            let store = FaultyStore::claiming(memory.clone(), capabilities.clone());
            let builder = Engine::builder(store.clone());
            let engine = builder.clock(clock.clone()).entropy(chance.clone()).build();
            (engine, store)
        };
        let engines = (0..ENGINES).map(engine).collect();
        Self {
            clock,
            memory,
            engines,
            chance,
            history: Arc::default(),
            doubts: Arc::default(),
            gates: Vec::new(),
        }
    }

    fn pick(&self, end: usize) -> usize {
        usize::try_from(self.chance.below(u64::try_from(end).unwrap())).unwrap()
    }

    /// Breaks the next call of some verb at some engine, or all calls until that engine is healed.
    fn break_something(&mut self) {
        let (_, store) = &self.engines[self.pick(ENGINES)];
        let verb = VERBS[self.pick(VERBS.len())];
        let gate = Gate::shut();
        let fault = match self.pick(8) {
            0 => Fault::LoseCall,
            1 => Fault::LoseAnswer,
            2 => Fault::HangCall,
            3 => Fault::HangAnswer,
            4 => Fault::Panic,
            5 => Fault::Slow,
            6 => Fault::Delay(gate.clone()),
            _ => Fault::DelayAnswer(gate.clone()),
        };
        if self.pick(4) == 0 {
            store.always(verb, fault);
        } else {
            store.next(verb, fault);
        }
        self.gates.push(gate);
    }

    /// Does one thing that the world around the callers does.
    async fn turn(&mut self) {
        for _ in 0..self.pick(4) {
            self.break_something();
        }
        if self.pick(3) == 0 && !self.gates.is_empty() {
            let gate = self.pick(self.gates.len());
            self.gates.swap_remove(gate).open();
        }
        if self.pick(8) == 0 {
            self.engines[self.pick(ENGINES)].1.heal();
        }
        if self.pick(4) == 0 {
            let id = id(&format!("k{}", self.chance.below(KEYS)));
            self.resolve(&id).await;
        }
    }

    /// Lets callers, faults and the clock go on until every caller has ended.
    async fn play(&mut self, on_lost: OnLost) {
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            let (engine, _) = &self.engines[number % ENGINES];
            let caller = Caller {
                engine: engine.clone(),
                clock: self.clock.clone(),
                chance: self.chance.clone(),
                history: self.history.clone(),
                doubts: self.doubts.clone(),
                on_lost,
            };
            callers.spawn(caller.live(number));
        }
        let mut turns = 0;
        while !callers.is_empty() {
            turns += 1;
            assert!(turns < 2_000, "somebody waits for ever");
            if turns < 200 {
                self.turn().await;
            } else {
                self.heal();
            }
            self.clock.run(Duration::from_millis(self.chance.below(4_000))).await;
            while let Some(ended) = callers.try_join_next() {
                ended.unwrap();
            }
        }
    }

    fn heal(&mut self) {
        self.engines.iter().for_each(|(_, store)| store.heal());
        self.gates.drain(..).for_each(|gate| gate.open());
    }

    /// Ends every doubt as an honest operator does, and asks for every intent once more.
    async fn settle(&mut self, on_lost: OnLost) {
        // What was on its way arrives, and what has ended lapses.
        self.heal();
        self.clock.run(LEASE * 4).await;
        for id in self.history.ids() {
            let (engine, _) = &self.engines[0];
            let begun = self.begin(engine, &id, on_lost).await;
            let begun = match begun {
                Begun::Refused(refusal) if refusal.code() == "unknown" => {
                    assert!(self.doubts.holds(&id), "{id} is unknown for no reason");
                    self.resolve(&id).await;
                    self.begin(engine, &id, on_lost).await
                }
                begun => begun,
            };
            match begun {
                Begun::Replay(record) => {
                    self.history.acknowledged(&id, Told::from(record.outcome.as_ref().unwrap()));
                }
                Begun::Run(holder) => {
                    complete(&self.history, &self.doubts, holder, "settled").await
                }
                Begun::Refused(refusal) => panic!("{id} is stuck: {}", refusal.code()),
            }
        }
    }

    async fn begin(&self, engine: &Engine, id: &IntentId, on_lost: OnLost) -> Begun {
        let call = call(id.key.as_str(), policy(on_lost));
        engine.begin(call).await.unwrap()
    }

    /// Ends a doubt as an honest operator does; what is in no doubt is left alone by the store.
    async fn resolve(&self, id: &IntentId) {
        let record = self.memory.read(vec![id.clone()]).await.unwrap().records.remove(0);
        let Some(record) = record else { return };
        let done = self.history.count(id) > 0;
        let ask = ResolveAsk {
            resolve_id: self.chance.bytes(),
            token: record.token,
            fence: record.fence,
            verdict: if done {
                Verdict::Done(Outcome::new(201, "found out"))
            } else {
                Verdict::NotDone { new_incarnation: false }
            },
            settle_for: Duration::ZERO,
            force: false,
            replay_for: Policy::default().replay_for,
            remember_for: Policy::default().remember_for,
        };
        let actor = Actor { name: "ada".into(), note: "looked".into() };
        self.memory.resolve(id.clone(), ask, actor).await.unwrap();
    }

    async fn check(&self, promise: Promise) {
        let mut kept = HashMap::new();
        for id in self.history.ids() {
            let record = self.memory.read(vec![id.clone()]).await.unwrap().records.remove(0);
            let record = record.unwrap();
            assert_eq!(record.phase(semel::Timestamp::default()), Phase::Stored(record.state));
            assert!(matches!(record.state, State::Done | State::Failed), "{id}: {}", record.state);
            kept.insert(id, Told::from(record.outcome.as_ref().unwrap()));
        }
        let broken = self.history.check(promise, |id| kept.get(id).cloned());
        assert!(broken.is_empty(), "{broken:?}");
    }
}

/// Acts and stores the end, which counts as told only if it was acknowledged.
async fn complete(history: &History, doubts: &Doubts, holder: Holder, body: &'static str) {
    let id = holder.permit().id.clone();
    if holder.start().await.is_err() {
        return;
    }
    history.effect(&id);
    let outcome = Outcome::new(201, body);
    match holder.complete(outcome.clone()).await {
        Ok(Ended::Stored) => history.acknowledged(&id, Told::from(&outcome)),
        Ok(Ended::Before(record)) => {
            history.acknowledged(&id, Told::from(record.outcome.as_ref().unwrap()));
        }
        Err(_) => doubts.note(&id),
    }
}

/// One who asks for an intent a few times, and runs it in some way when it may.
struct Caller {
    engine: Engine,
    clock: Arc<ManualClock>,
    chance: Arc<SeededEntropy>,
    history: Arc<History>,
    doubts: Arc<Doubts>,
    on_lost: OnLost,
}

impl Caller {
    async fn live(self, number: usize) {
        let id = id(&format!("k{}", self.chance.below(KEYS)));
        self.history.asked(&id);
        let bodies = ["a", "b", "c", "d", "e", "f", "g"];
        for _ in 0..3 {
            self.pause(20).await;
            let waits =
                Policy { wait: Duration::from_secs(self.chance.below(60)), ..policy(self.on_lost) };
            match self.engine.begin(call(id.key.as_str(), waits)).await {
                Ok(Begun::Run(holder)) => self.run(&id, holder, bodies[number % 7]).await,
                Ok(Begun::Replay(record)) => {
                    let told = Told::from(record.outcome.as_ref().unwrap());
                    self.history.acknowledged(&id, told);
                }
                Ok(Begun::Refused(_)) | Err(_) => {}
            }
        }
    }

    async fn run(&self, id: &IntentId, holder: Holder, body: &'static str) {
        match self.chance.below(8) {
            0 => drop(holder),
            1 => {
                if holder.release("no-effect").await.is_err() {
                    self.doubts.note(id);
                }
            }
            2 => {
                let refusal = Outcome::new(402, body);
                match holder.fail(refusal.clone()).await {
                    Ok(Ended::Stored) => self.history.acknowledged(id, Told::from(&refusal)),
                    Ok(Ended::Before(_)) => {}
                    Err(_) => self.doubts.note(id),
                }
            }
            3 => {
                if holder.start().await.is_ok() {
                    self.history.effect(id);
                    self.doubts.note(id);
                }
                drop(holder);
            }
            4 => {
                if holder.start().await.is_ok() {
                    self.history.effect(id);
                    self.doubts.note(id);
                    drop(holder.may_have_acted("reset").await);
                }
            }
            5 => {
                self.pause(90).await;
                complete(&self.history, &self.doubts, holder, body).await;
            }
            _ => complete(&self.history, &self.doubts, holder, body).await,
        }
    }

    async fn pause(&self, secs: u64) {
        let pause = Duration::from_secs(self.chance.below(secs));
        self.clock.sleep_until(self.clock.monotonic().after(pause)).await;
    }
}

async fn simulate(on_lost: OnLost, promise: Promise, worlds: usize) {
    let seeds = SeededEntropy::printed();
    for _ in 0..worlds {
        let seed = seeds.number();
        println!("world {seed}");
        let mut simulation = Simulation::new(seed);
        simulation.play(on_lost).await;
        simulation.settle(on_lost).await;
        simulation.check(promise).await;
        for (engine, _) in &simulation.engines {
            assert!(engine.holding() == 0 && engine.waiting() == 0);
        }
    }
}

/// C11, C79: whatever fails, under hold no intent has a second effect, nothing that was acknowledged
/// is lost, and every doubt can be ended.
#[tokio::test]
async fn no_fault_makes_a_second_effect_under_hold() {
    simulate(OnLost::Hold, Promise::AtMostOnce, 12).await;
}

/// Under rerun effects carry keys of their own; what was acknowledged is what everybody is told.
#[tokio::test]
async fn no_fault_changes_what_was_acknowledged_under_rerun() {
    simulate(OnLost::Rerun, Promise::Keyed, 12).await;
}
