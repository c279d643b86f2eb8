//! `semel records import`.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use semel::{
    Fence, IntentId, Phase, Record, State, Timestamp,
    outcome::Body,
    store::{
        BATCH_MAX,
        capability::{AuditRow, SweepBudget},
        moving::{Brought, Closed, same},
    },
};
use serde_json::json;

use super::{
    Bar, Tally, audit,
    line::Head,
    records,
    source::{Item, Source},
};
use crate::{
    cli::{
        exit::{Exit, Failure, say},
        records::target::Desk,
        store::StoreArgs,
    },
    config::written,
};

/// How many bytes of bodies go in one batch, about.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How many names of records that differ are told.
const TOLD: usize = 10;
/// What ends within this time may end while it is imported.
const SOON: Duration = Duration::from_secs(86_400);

/// Brings what `semel records export` wrote into an empty store, which is closed until all of it is there.
/// Asked again after it was cut short, it goes on
#[derive(Args, Debug)]
pub(in crate::cli::records) struct Import {
    /// The file to read; the standard input without one
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Writes nothing: compares each record of the file with the store's, and exits with 1 if one is missing or
    /// differs
    #[arg(long)]
    check: bool,
}

impl Import {
    /// Opens the store, which is made if it is missing, unless it is only compared.
    pub(in crate::cli::records) async fn desk(
        &self,
        store: StoreArgs,
        json: bool,
    ) -> Result<Desk, Failure> {
        whole(self.file.as_deref())?;
        if self.check { Desk::open(store, json).await } else { Desk::make(store, json).await }
    }

    pub(in crate::cli::records) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let mut source = Source::open(self.file.as_deref())?;
        let head = source.head()?;
        if self.check {
            return Compared::of(desk, &mut source, &head).await?.tell(desk);
        }
        let mut import = Importing::begin(desk, &head).await?;
        import.all(&mut source).await?;
        import.end(source.tally, &head).await?;
        say(&import.summary(source.tally, source.rows))?;
        Ok(Exit::Fine)
    }
}

/// Reads a file to its end before anything is made of it. What comes by the standard input or a pipe cannot be read
/// twice.
fn whole(file: Option<&Path>) -> Result<(), Failure> {
    let is_pipe =
        |path: &Path| fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    let Some(path) = file.filter(|path| !is_pipe(path)) else { return Ok(()) };
    let mut source = Source::open(Some(path))?;
    source.head()?;
    while source.next()?.is_some() {}
    Ok(())
}

/// An import on its way.
struct Importing<'a> {
    desk: &'a Desk,
    bar: Bar,
    records: Vec<Record>,
    bytes: usize,
    rows: Vec<AuditRow>,
    began: Timestamp,
    largest: Fence,
    stored: u64,
    same: u64,
    over: u64,
    /// How many may be over before they are counted.
    soon: u64,
    noted: u64,
}

impl<'a> Importing<'a> {
    /// Makes sure that nothing but this export goes into the store, and that nobody uses it before all is there.
    async fn begin(desk: &'a Desk, head: &Head) -> Result<Self, Failure> {
        match desk.mover.standing().await?.closed {
            Some(Closed::Arriving) => desk.mover.close(Closed::Arriving).await?,
            Some(Closed::Away) => {
                return Err(Failure::refused(
                    "the records of this store were taken away; to take them back, open it: semel records \
                     open",
                ));
            }
            None => {
                while desk.sweep.sweep(SweepBudget::default()).await?.more {}
                empty(desk).await?;
                desk.mover.close(Closed::Arriving).await?;
                // Whoever was faster than the close.
                if let Err(refused) = empty(desk).await {
                    desk.mover.open().await?;
                    return Err(refused);
                }
            }
        }
        let began = desk.records.now().await?;
        let behind = Timestamp::from_micros(head.at_us).since(began);
        if behind > Duration::from_secs(1) {
            eprintln!(
                "semel: the clock of this store is {} behind that of the export: set it right, or what is \
                 kept lasts that much longer",
                written(behind)
            );
        }
        Ok(Self {
            desk,
            bar: Bar::of(desk.json, head.records, "import"),
            records: Vec::new(),
            bytes: 0,
            rows: Vec::new(),
            began,
            largest: Fence::new(head.floor),
            stored: 0,
            same: 0,
            over: 0,
            soon: 0,
            noted: 0,
        })
    }

    async fn all(&mut self, source: &mut Source) -> Result<(), Failure> {
        while let Some(item) = source.next()? {
            match item {
                Item::Audit(row) => self.rows.push(row),
                Item::Record(record) => self.take(*record),
            }
            let full = self.records.len() >= BATCH_MAX || self.bytes >= BATCH_BYTES;
            if full || self.rows.len() >= BATCH_MAX {
                self.bring().await?;
            }
        }
        self.bring().await
    }

    fn take(&mut self, record: Record) {
        self.largest = self.largest.max(record.fence);
        let ends = !matches!(record.state, State::Running | State::Unknown);
        self.soon += u64::from(ends && record.remember_until < self.began.after(SOON));
        self.bytes += match record.outcome.as_ref().map(|outcome| &outcome.body) {
            Some(Body::Kept(body)) => body.len(),
            _ => 0,
        };
        self.records.push(record);
    }

    async fn bring(&mut self) -> Result<(), Failure> {
        let (records, rows) = (std::mem::take(&mut self.records), std::mem::take(&mut self.rows));
        self.bytes = 0;
        if !records.is_empty() {
            let ids: Vec<_> = records.iter().map(|record| record.id.clone()).collect();
            let answers = patiently(|| self.desk.mover.bring(records.clone())).await?;
            self.bar.pass(answers.len());
            for (answer, id) in answers.into_iter().zip(&ids) {
                match answer {
                    Brought::Stored => self.stored += 1,
                    Brought::Same => self.same += 1,
                    Brought::Over => self.over += 1,
                    Brought::Differs(_) => return Err(differs(id)),
                }
            }
        }
        if !rows.is_empty() {
            self.noted += patiently(|| self.desk.mover.recall(rows.clone())).await?;
        }
        Ok(())
    }

    /// Opens the store, after what is in it was counted.
    async fn end(&self, tally: Tally, head: &Head) -> Result<(), Failure> {
        self.desk.mover.raise(self.largest.max(Fence::new(head.floor))).await?;
        let counts = self.desk.records.counts().await?;
        let held = tally.running + tally.unknown;
        let finished = tally.total() - held;
        let counted = counts.done + counts.forgotten + counts.open;
        let fits = counts.running + counts.unknown == held
            && (finished.saturating_sub(self.soon)..=finished).contains(&counted);
        if !fits {
            return Err(Failure::refused(format!(
                "the export has {} records and the store {}: others were in it, or some were lost; it \
                 stays closed",
                tally.total(),
                counts.total()
            )));
        }
        Ok(self.desk.mover.open().await?)
    }

    fn summary(&self, tally: Tally, audit: u64) -> String {
        let url = &self.desk.store.url;
        let (stored, same, over, noted) = (self.stored, self.same, self.over, self.noted);
        if self.desk.json {
            return json!({
                "store": url.to_string(),
                "records": tally,
                "stored": stored,
                "same": same,
                "over": over,
                "audit": audit,
                "audit_added": noted,
            })
            .to_string();
        }
        let mut text = format!("{url} has {} more", records(stored));
        if same > 0 {
            text += &format!(", {} there already", records(same));
        }
        if over > 0 {
            text += &format!(", {} left out that were over", records(over));
        }
        text + &format!("; {} more; it is open", super::rows(noted))
    }
}

fn differs(id: &IntentId) -> Failure {
    Failure::refused(format!(
        "the store has another record of {id} than the export: it is not empty, or was used meanwhile; \
         nothing of its own was changed, and it stays closed"
    ))
}

/// Asks again for what passes: a repeat of what was brought changes nothing.
async fn patiently<T, F: Future<Output = Result<T, semel::StoreError>>>(
    ask: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut pause = Duration::from_millis(100);
    loop {
        match ask().await {
            Err(error) if error.kind().is_retryable() && pause < Duration::from_secs(10) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            answer => return Ok(answer?),
        }
    }
}

async fn empty(desk: &Desk) -> Result<(), Failure> {
    match desk.records.counts().await?.total() {
        0 => Ok(()),
        count => Err(Failure::refused(format!(
            "the store is not empty, it has {count} of its own: import into an empty one; --check compares \
             it with the export"
        ))),
    }
}

/// What a comparison found.
#[derive(Default)]
struct Compared {
    same: u64,
    over: u64,
    missing: u64,
    different: u64,
    audit_missing: u64,
    names: Vec<String>,
}

impl Compared {
    async fn of(desk: &Desk, source: &mut Source, head: &Head) -> Result<Self, Failure> {
        let mut found = Self::default();
        let bar = Bar::of(desk.json, head.records, "check");
        let (mut records, mut rows) = (Vec::new(), None);
        while let Some(item) = source.next()? {
            match item {
                Item::Record(record) => records.push(*record),
                Item::Audit(row) => {
                    if rows.is_none() {
                        rows = Some(HashSet::<AuditRow>::from_iter(audit(desk).await?));
                    }
                    let is_there = rows.as_ref().is_some_and(|rows| rows.contains(&row));
                    found.audit_missing += u64::from(!is_there);
                }
            }
            if records.len() >= BATCH_MAX {
                bar.pass(records.len());
                found.compare(desk, std::mem::take(&mut records)).await?;
            }
        }
        found.compare(desk, records).await?;
        Ok(found)
    }

    async fn compare(&mut self, desk: &Desk, records: Vec<Record>) -> Result<(), Failure> {
        let ids = records.iter().map(|record| record.id.clone()).collect();
        let reading = desk.records.read_all(ids).await?;
        for (record, kept) in records.iter().zip(reading.records) {
            let count = match kept {
                _ if record.phase(reading.now) == Phase::Absent => &mut self.over,
                Some(kept) if same(&kept, record, reading.now) => &mut self.same,
                Some(_) => &mut self.different,
                None => &mut self.missing,
            };
            *count += 1;
            let wrong = self.missing + self.different;
            if usize::try_from(wrong).is_ok_and(|wrong| wrong > self.names.len())
                && self.names.len() < TOLD
            {
                self.names.push(record.id.to_string());
            }
        }
        Ok(())
    }

    fn tell(&self, desk: &Desk) -> Result<Exit, Failure> {
        let Self { same, over, missing, different, audit_missing, names } = self;
        if desk.json {
            let json = json!({
                "store": desk.store.url.to_string(), "same": same, "over": over, "missing": missing,
                "different": different, "audit_missing": audit_missing, "names": names
            });
            say(&json.to_string())?;
        } else {
            let (same, gone) = (records(*same), super::rows(*audit_missing));
            say(&format!(
                "the same: {same}; over: {over}; missing: {missing}; different: {different}; missing too: \
                 {gone}"
            ))?;
            names.iter().try_for_each(|name| say(&format!("missing or different: {name}")))?;
        }
        let fine = *missing == 0 && *different == 0 && *audit_missing == 0;
        Ok(if fine { Exit::Fine } else { Exit::Refused })
    }
}
