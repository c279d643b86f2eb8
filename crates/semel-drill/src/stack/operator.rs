//! What an operator does in the end: looks for what nobody can say, and says what the books say.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use semel::{
    Outcome, Record, State, Store, StoreError, StoreErrorKind,
    decide::{Resolution, Verdict},
    policy::Policy,
    store::{
        Actor, BATCH_MAX,
        capability::{Counts, Filter},
    },
};
use semel_gateway::{
    records::{Records, Seen},
    settings::StoreSettings,
    stores,
};
use tokio::{process::Command, time::sleep};

use super::{
    StackError, intent,
    ledger::{Ledger, Page},
    settings::Settings,
};

/// How many are resolved on the command line; the others by what it calls.
const BY_COMMAND: usize = 5;
const NAME: &str = "semel-drill";
const NOTE: &str = "as the upstream's books say";
/// How long the store may be away from somebody who asks for its records.
const AWAY_MAX: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What came of the operator's work.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved {
    pub(super) done: u64,
    pub(super) not_done: u64,
    /// "Not done" that had to be forced, since the clock that counts was turned back.
    pub(super) forced: u64,
    pub(super) refused: Vec<String>,
}

impl Resolved {
    /// Adds what came of more work.
    pub(super) fn add(&mut self, more: Self) {
        self.done += more.done;
        self.not_done += more.not_done;
        self.forced += more.forced;
        self.refused.extend(more.refused);
    }
}

/// Asks the store again where it is away: nobody makes trouble any more, and a machine may be slow.
async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let deadline = Instant::now() + AWAY_MAX;
    loop {
        match ask().await {
            Err(error) if is_away(&error) && Instant::now() < deadline => sleep(ASK_EVERY).await,
            answer => return answer,
        }
    }
}

fn is_away(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Unavailable)
}

/// The operator at the store.
#[derive(Debug)]
pub(super) struct Operator {
    records: Records,
    store: Arc<dyn Store>,
    program: PathBuf,
    /// Where a gateway's configuration lies, and names the store and the operations.
    folder: PathBuf,
    policy: Policy,
    /// How long somebody lost may still be sending, by the drill's own clock.
    patience: Duration,
}

impl Operator {
    pub(super) async fn new(
        settings: &Settings,
        store: &StoreSettings,
        folder: PathBuf,
    ) -> Result<Self, StackError> {
        let opened = patiently(|| stores::open_existing(store)).await?;
        let policy = Policy {
            lease: settings.lease,
            settle_for: settings.answer_wait(),
            ..Policy::default()
        };
        Ok(Self {
            records: Records::new(Arc::clone(&opened.store), opened.inspect),
            store: opened.store,
            folder,
            program: settings.program.clone(),
            policy,
            patience: settings.lease + settings.answer_wait() + Duration::from_secs(2),
        })
    }

    /// Lists everything that is unknown.
    pub(super) async fn unknown(&self) -> Result<Vec<Record>, StackError> {
        let limit = u32::try_from(BATCH_MAX).unwrap_or(u32::MAX);
        let mut all: Vec<Record> = Vec::new();
        loop {
            let after = all.last().map(|record| record.id.clone());
            let filter = Filter { state: Some(State::Unknown), after, limit, ..Filter::default() };
            let page = patiently(|| self.records.list(filter.clone())).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Returns those of these intents of which the store has no outcome.
    pub(super) async fn without_outcome(&self, numbers: &[u64]) -> Result<Vec<u64>, StackError> {
        let mut without = Vec::new();
        for batch in numbers.chunks(BATCH_MAX) {
            let ids: Vec<_> = batch.iter().copied().map(intent::id).collect();
            let read = patiently(|| self.store.read(ids.clone())).await?;
            let ended = |record: &Record| matches!(record.state, State::Done | State::Failed);
            let found = batch.iter().zip(read.records);
            let missing = found.filter(|(_, record)| !record.as_ref().is_some_and(ended));
            without.extend(missing.map(|(number, _)| *number));
        }
        Ok(without)
    }

    /// Counts the records by state.
    pub(super) async fn counts(&self) -> Result<Counts, StackError> {
        Ok(patiently(|| self.records.counts()).await?)
    }

    /// Waits until nobody who was lost may still be sending for what is not done by the ledger, and
    /// returns from when on that is so whatever the clock of the store says. What is done meanwhile stands
    /// in the books only afterwards.
    pub(super) async fn outlives(
        &self,
        unknown: &[Record],
        ledger: &Ledger,
    ) -> Result<Instant, StackError> {
        // All were lost before now: whoever still sends has ended by then.
        let deadline = Instant::now() + self.patience;
        let open = unknown.iter().filter(|record| {
            intent::number(record.id.key.as_str())
                .is_some_and(|number| ledger.page(number).done.is_none())
        });
        let ends = open.map(|record| record.lease.ends_at().after(self.policy.settle_for));
        let Some(end) = ends.max() else { return Ok(deadline) };
        while patiently(|| self.records.now()).await? < end && Instant::now() <= deadline {
            sleep(ASK_EVERY).await;
        }
        Ok(deadline)
    }

    /// Resolves all of these as the books say, which were read after [`Self::outlives`].
    pub(super) async fn resolve(
        &self,
        unknown: &[Record],
        ledger: &Ledger,
        deadline: Instant,
    ) -> Result<Resolved, StackError> {
        let mut resolved = Resolved::default();
        for (at, record) in unknown.iter().enumerate() {
            let Some(number) = intent::number(record.id.key.as_str()) else { continue };
            let page = ledger.page(number);
            match page.done {
                Some(_) => resolved.done += 1,
                None => resolved.not_done += 1,
            }
            let said = match at < BY_COMMAND {
                true => self.by_command(number, &page, deadline).await?,
                false => self.by_call(record, &page, deadline).await?,
            };
            match said {
                Ok(forced) => resolved.forced += u64::from(forced),
                Err(why) => {
                    resolved.refused.push(format!("intent {number} cannot be resolved: {why}"));
                }
            }
        }
        Ok(resolved)
    }

    /// Resolves one, and says whether it had to be forced, or why it cannot be resolved.
    async fn by_command(
        &self,
        number: u64,
        page: &Page,
        deadline: Instant,
    ) -> Result<Result<bool, String>, StackError> {
        loop {
            let force = page.done.is_none() && Instant::now() > deadline;
            let output = self.command(number, page, force).output().await?;
            match output.status.code() {
                Some(0) => return Ok(Ok(force)),
                // The lost holder may still be sending.
                Some(1) if page.done.is_none() && !force => sleep(ASK_EVERY).await,
                _ => return Ok(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
            }
        }
    }

    fn command(&self, number: u64, page: &Page, force: bool) -> Command {
        let (operation, _) = intent::operation(number);
        let mut command = Command::new(&self.program);
        command.args(["gateway", "records", "resolve", operation, &intent::key(number)]);
        command.args(["--yes", "--json", "--actor", NAME, "--note", NOTE]);
        match &page.done {
            Some(told) => {
                let status = told.status.to_string();
                command.args(["--done", "--status", &status, "--body"]);
                command.arg(String::from_utf8_lossy(&told.body).as_ref());
            }
            None => drop(command.arg("--not-done")),
        }
        command.args(force.then_some("--force"));
        command.current_dir(&self.folder).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn by_call(
        &self,
        record: &Record,
        page: &Page,
        deadline: Instant,
    ) -> Result<Result<bool, String>, StackError> {
        let seen = Seen { record: record.clone(), now: patiently(|| self.records.now()).await? };
        let verdict = match &page.done {
            Some(told) => Verdict::Done(
                Outcome::new(told.status, told.body.clone())
                    .header("content-type", &b"application/json"[..]),
            ),
            None => Verdict::NotDone { new_incarnation: false },
        };
        let id = self.records.new_id();
        loop {
            let force = Instant::now() > deadline;
            let resolve = || {
                let actor = Actor { name: NAME.into(), note: NOTE.into() };
                self.records.resolve(&seen, id, verdict.clone(), force, &self.policy, actor)
            };
            match patiently(resolve).await? {
                Resolution::Already | Resolution::Stored => return Ok(Ok(force)),
                Resolution::TooEarly(_) if !force => sleep(ASK_EVERY).await,
                other => return Ok(Err(format!("{other:?}"))),
            }
        }
    }
}
