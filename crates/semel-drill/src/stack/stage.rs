//! The run from its first process to its verdict.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use semel::Record;
use semel_testkit::{
    history::Told,
    servers::{Medium, Scratch},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    StackError,
    application::Application,
    caller::Got,
    chaos::Chaos,
    crowd::Crowd,
    events::Events,
    gateway::{Gateway, Ways},
    intent,
    ledger::Ledger,
    operator::{Operator, Resolved},
    place::{Line, Place},
    progress::Progress,
    receiver::Receiver,
    settings::{OnLost, Settings, Store, Until},
    shop::Shop,
    skew::{Litter, Skew},
    trouble::{Log, Trouble},
    verdict::{Report, Seen, judge},
};

/// How long the clients may take until everything is definite, after all trouble.
const FINISH_WAIT: Duration = Duration::from_secs(180);
/// How often what is unknown again is resolved again.
const ROUNDS_MAX: usize = 8;
/// How long nothing arrives until what has not arrived is lost, after everything was killed once more: far
/// longer than a lease of the relay, a circuit and the pauses between sends.
const NOTHING_ARRIVES_FOR: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Everything that runs. What ends first stands first.
#[derive(Debug)]
pub(super) struct Stage {
    settings: Settings,
    gateways: Vec<Gateway>,
    lines: Vec<Line>,
    place: Place,
    shop: Shop,
    _receiver: Option<Receiver>,
    application: Option<Arc<Application>>,
    ledger: Arc<Ledger>,
    crowd: Arc<Crowd>,
    log: Arc<Log>,
    folder: PathBuf,
    _scratch: Scratch,
    _litter: Option<Litter>,
}

/// What the time of trouble was like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raged {
    pub(super) begun: Instant,
    pub(super) trouble_for: Duration,
}

/// What an operator found and did.
#[derive(Debug)]
pub(super) struct Settled {
    /// The intents that nobody could say of.
    pub(super) unknown: Vec<u64>,
    /// Those of which a caller was told so, and whose holder came back.
    pub(super) came_back: u64,
    /// Those that nothing explains.
    pub(super) unexplained: Vec<u64>,
    pub(super) resolved: Resolved,
    /// Those of which somebody was told a final answer, and the store has none.
    pub(super) missing: Vec<u64>,
}

/// What every gateway says in the end.
#[derive(Debug, Default)]
pub(super) struct Replays {
    pub(super) told: HashMap<u64, Told>,
    pub(super) wrong: Vec<String>,
    pub(super) count: u64,
}

impl Stage {
    pub(super) async fn set(settings: &Settings) -> Result<Self, StackError> {
        let medium = if settings.has(Trouble::Power) { Medium::Disk } else { Medium::Memory };
        let scratch = match &settings.folder {
            Some(folder) => Scratch::kept(folder)?,
            None => Scratch::new("stack", medium),
        };
        let folder = scratch.path().to_owned();
        let litter = settings.has(Trouble::Skew).then(Litter::watch);
        let ledger = Arc::new(Ledger::new(settings.upstream));
        let place = Place::new(settings, &folder).await?;
        let application = settings.events.then(|| Application::new(settings, &place));
        let application = application.flatten().map(Arc::new);
        let shop = Shop::open(settings, &ledger, application.clone()).await?;
        let receiver = match &application {
            Some(application) => Some(Receiver::open(settings, &application.deliveries).await?),
            None => None,
        };
        let (mut gateways, mut lines) = (Vec::new(), place.lines());
        for number in 0..settings.gateways {
            let line = Line::to(number, shop.address).await;
            let out = match &receiver {
                Some(receiver) => Some(Line::to(number, receiver.address).await),
                None => None,
            };
            let ways = Ways {
                upstream: line.proxy.address(),
                receiver: out.as_ref().map(|out| out.proxy.address()),
            };
            let home = folder.join(format!("gateway-{number}"));
            let store = place.url_for(number);
            let mut gateway = Gateway::new(settings, number, home, &store, ways)?;
            if settings.has(Trouble::Skew) && settings.store == Store::Sqlite {
                gateway.set_skew(Skew::new(folder.join(format!("clock-{number}")))?);
            }
            gateway.start().await?;
            gateways.push(gateway);
            lines.push(line);
            lines.extend(out);
        }
        if let Some(application) = &application {
            application.prepare().await?;
        }
        place.until_ready().await?;
        let crowd = Crowd::new(settings, gateways.iter().map(|gateway| gateway.address).collect());
        let (settings, log) = (settings.clone(), Arc::default());
        Ok(Self {
            settings,
            gateways,
            lines,
            place,
            shop,
            _receiver: receiver,
            application,
            ledger,
            crowd,
            log,
            folder,
            _scratch: scratch,
            _litter: litter,
        })
    }

    /// Lets the clients ask while trouble is made, and then until everything is definite.
    pub(super) async fn rage(&mut self, progress: &Progress) -> Result<Raged, StackError> {
        let begun = Instant::now();
        let (stop, over) = watch::channel(false);
        let chaos = Chaos {
            settings: self.settings.clone(),
            crowd: Arc::clone(&self.crowd),
            log: Arc::clone(&self.log),
            application: self.application.clone(),
            over,
        };
        let clients = self.crowd.send();
        let (crowd, ledger, log) = (&self.crowd, &self.ledger, &self.log);
        let until = self.settings.until;
        let direct = async {
            while !is_reached(until, begun, crowd) {
                progress.tell(crowd, ledger, log, begun);
                sleep(LOOK_EVERY).await;
            }
            crowd.no_more();
            stop.send_replace(true);
            Ok(())
        };
        let rage = chaos.rage(&mut self.gateways, &mut self.place, &self.lines);
        tokio::try_join!(rage, direct)?;
        let trouble_for = begun.elapsed();
        self.crowd.calm();
        self.finish(clients, progress, begun).await?;
        Ok(Raged { begun, trouble_for })
    }

    async fn finish(
        &self,
        mut clients: JoinSet<()>,
        progress: &Progress,
        begun: Instant,
    ) -> Result<(), StackError> {
        let finish = async {
            loop {
                match timeout(LOOK_EVERY, clients.join_next()).await {
                    Ok(None) => return,
                    Ok(Some(_)) => {}
                    Err(_) => progress.tell(&self.crowd, &self.ledger, &self.log, begun),
                }
            }
        };
        let finished = timeout(FINISH_WAIT, finish).await;
        finished.map_err(|_| StackError::Stuck("the clients never came to an end".to_owned()))
    }

    /// Settles what nobody can say, as the books say, and asks for it again.
    pub(super) async fn settle(&mut self, progress: &Progress) -> Result<Settled, StackError> {
        progress.say("the operator resolves what is unknown");
        let home = self.folder.join("gateway-0");
        let operator = Operator::new(&self.settings, &self.place.settings()?, home).await?;
        let records = operator.unknown().await?;
        let unknown: Vec<_> = records.iter().filter_map(number_of).collect();
        let told = self.crowd.book.told_unknown();
        let all: BTreeSet<_> = unknown.iter().chain(&told).copied().collect();
        let came_back = u64::try_from(all.len() - unknown.len()).unwrap_or(u64::MAX);
        let unexplained = all.iter().copied().filter(|number| !self.explains(*number)).collect();
        let mut resolved = self.resolve(&operator, &records).await?;
        resolved.add(self.until_settled(&operator, all.into_iter().collect()).await?);
        let missing = operator.without_outcome(&self.crowd.book.all_told()).await?;
        // Whoever asks for what is lost is somebody new, or nobody can say once more.
        self.shop.calm_down();
        resolved.add(self.until_settled(&operator, missing.clone()).await?);
        Ok(Settled { unknown, came_back, unexplained, resolved, missing })
    }

    /// Asks for these, and settles again what runs again and is left without an answer again.
    async fn until_settled(
        &self,
        operator: &Operator,
        numbers: Vec<u64>,
    ) -> Result<Resolved, StackError> {
        let mut resolved = Resolved::default();
        let mut left = self.settled(numbers.into()).await;
        for _ in 0..ROUNDS_MAX {
            if left.is_empty() {
                break;
            }
            let records = operator.unknown().await?;
            resolved.add(self.resolve(operator, &records).await?);
            left = self.settled(left.into()).await;
        }
        for number in left {
            self.crowd.watch.wrong(format!("intent {number} is unknown again and again"));
        }
        Ok(resolved)
    }

    /// Resolves these as the books say once nobody who was lost can still add to them.
    async fn resolve(
        &self,
        operator: &Operator,
        unknown: &[Record],
    ) -> Result<Resolved, StackError> {
        let deadline = operator.outlives(unknown, &self.ledger).await?;
        self.read_books().await?;
        operator.resolve(unknown, &self.ledger, deadline).await
    }

    /// Enters into the ledger what nobody heard of, as the application's own books have it.
    async fn read_books(&self) -> Result<(), StackError> {
        let Some(application) = &self.application else { return Ok(()) };
        for (number, effects) in application.effects().await? {
            self.ledger.has_at_least(number, effects);
        }
        Ok(())
    }

    /// Asks for what was resolved, notes what is told, and returns what is unknown again.
    async fn settled(&self, numbers: Arc<[u64]>) -> Vec<u64> {
        let mut unknown = Vec::new();
        for (number, got) in self.crowd.ask_again(0, numbers).await {
            match got {
                Got::Told(told) => self.crowd.told(number, told),
                Got::Unknown => unknown.push(number),
                Got::Again(why) => {
                    let says = format!("intent {number} is not settled: {}", why.word());
                    self.crowd.watch.wrong(says);
                }
                Got::Wrong(what) => {
                    self.crowd.watch.wrong(format!("intent {number} is not settled: {what}"));
                }
            }
        }
        unknown
    }

    /// Says whether it is to be expected that nobody can say what became of an intent.
    fn explains(&self, number: u64) -> bool {
        let lost =
            self.ledger.page(number).unanswered || was_in_trouble(&self.crowd, &self.log, number);
        self.settings.on_lost == OnLost::Hold && lost
    }

    /// Kills everything, starts it, and asks every gateway for everything.
    pub(super) async fn replay(&mut self, progress: &Progress) -> Result<Replays, StackError> {
        self.gateways.iter_mut().for_each(Gateway::kill);
        self.place.start_anew().await?;
        for gateway in &mut self.gateways {
            gateway.start().await?;
        }
        let numbers: Arc<[u64]> = (0..self.crowd.book.len()).collect();
        let mut replays = Replays::default();
        for gateway in 0..self.gateways.len() {
            progress.say(&format!("gateway {gateway} is asked for everything again"));
            for (number, got) in self.crowd.ask_again(gateway, Arc::clone(&numbers)).await {
                replays.count += 1;
                if let Got::Told(told) = got {
                    self.crowd.watch.told(number, told.clone());
                    replays.told.insert(number, told);
                } else {
                    replays.told.remove(&number);
                    let says = format!("intent {number} at gateway {gateway}: {}", got.in_words());
                    replays.wrong.push(says);
                }
            }
        }
        Ok(replays)
    }

    /// Waits until every event has arrived, or for too long, and judges what did.
    async fn delivered(&self) -> Result<Option<Events>, StackError> {
        let Some(application) = &self.application else { return Ok(None) };
        // What ran again after it was resolved has written effects and events of its own.
        self.read_books().await?;
        let deliveries = &application.deliveries;
        // As long as something still arrives, it is waited for: what was confirmed comes never again.
        let (mut count, mut since) = (deliveries.delivered_count(), Instant::now());
        while deliveries.judge().lost() > 0 && since.elapsed() < NOTHING_ARRIVES_FOR {
            sleep(LOOK_EVERY * 4).await;
            let now = deliveries.delivered_count();
            if now > count {
                (count, since) = (now, Instant::now());
            }
        }
        Ok(Some(Events::of(deliveries)))
    }

    /// Compares the books with what was told.
    pub(super) async fn judge(
        &self,
        raged: Raged,
        settled: &Settled,
        replays: &Replays,
    ) -> Result<Report, StackError> {
        let home = Path::new(&self.folder).join("gateway-0");
        let operator = Operator::new(&self.settings, &self.place.settings()?, home).await?;
        let seen = Seen {
            settings: &self.settings,
            crowd: &self.crowd,
            ledger: &self.ledger,
            log: &self.log,
            events: self.delivered().await?,
            counts: operator.counts().await?,
        };
        Ok(judge(&seen, raged, settled, replays))
    }
}

/// Says whether a gateway was in trouble that was asked for an intent.
pub(super) fn was_in_trouble(crowd: &Crowd, log: &Log, number: u64) -> bool {
    let Some(known) = crowd.book.get(number) else { return false };
    log.met(known.asked, known.first, known.unknown.unwrap_or_else(Instant::now))
}

fn is_reached(until: Until, begun: Instant, crowd: &Crowd) -> bool {
    match until {
        Until::Intents(_) => crowd.has_begun_all(),
        Until::Time(time) => begun.elapsed() >= time,
    }
}

fn number_of(record: &Record) -> Option<u64> {
    intent::number(record.id.key.as_str())
}
