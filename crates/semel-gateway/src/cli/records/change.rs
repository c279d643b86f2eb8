//! `semel records lapse`, `resolve` and `release`: settles what nobody else can.

use clap::Args;
use semel::{
    State,
    decide::{Resolution, Verdict},
    store::Actor,
};
use serde_json::json;

use super::{
    outcome::Said,
    target::{Desk, Which},
    view,
};
use crate::{
    cli::{
        exit::{Exit, Failure, say},
        signed::{Signed, Who},
        table,
    },
    config::written,
    records::{self, Seen},
};

/// Makes a running record whose lease is over unknown, so that it can be resolved
#[derive(Args, Debug)]
pub(super) struct Lapse {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    signed: Signed,
}

impl Lapse {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let seen = lapsed(desk, self.which.find(desk).await?, Some(self.signed.actor())).await?;
        if seen.record.state != State::Unknown {
            let state = seen.record.state;
            return Err(Failure::refused(format!("the record is {state}; nothing was changed")));
        }
        report(desk, &seen, "unknown", "the record is unknown and can be resolved", None)
    }
}

/// Reads again after a running record whose lease is over has become unknown. Without an actor it is
/// the first half of a change that is written to the audit itself.
async fn lapsed(desk: &Desk, seen: Seen, actor: Option<Actor>) -> Result<Seen, Failure> {
    if seen.record.state != State::Running {
        return Ok(seen);
    }
    if let records::Lapse::Held { lease_left } = desk.records.lapse(&seen, actor).await? {
        return Err(Failure::refused(format!(
            "a holder may still be working: its lease runs for another {}; nothing was changed",
            written(lease_left)
        )));
    }
    let again = desk.records.read(seen.record.id).await?;
    again.ok_or_else(|| Failure::refused("the record is gone; nothing was changed"))
}

/// Says what became of an unknown intent. A running one whose lease is over becomes unknown first
#[derive(Args, Debug)]
pub(super) struct Resolve {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    said: Said,
    #[command(flatten)]
    who: Who,
    /// Says "not done" although the lost holder may still be sending
    #[arg(long, requires = "not_done")]
    force: bool,
    /// Only if the record still has this fence
    #[arg(long)]
    fence: Option<u64>,
    /// The resolution's own id: a repeat with the same id changes nothing
    #[arg(long, value_name = "HEX", value_parser = view::resolve_id)]
    id: Option<[u8; 16]>,
}

impl Resolve {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let id = self.id.unwrap_or_else(|| desk.records.new_id());
        let verdict = self.said.verdict()?;
        let seen = lapsed(desk, self.which.find(desk).await?, None).await?;
        let repeat = seen.record.resolved_by == Some(id);
        if !repeat {
            unchanged(&seen, self.fence)?;
            confirm(&self.who, desk, &seen, &format!("Resolve as {}?", verdict.as_str()))?;
        }
        let policy = desk.policy(&seen.record.id.scope.operation);
        let actor = self.who.signed.actor();
        let resolution =
            desk.records.resolve(&seen, id, verdict.clone(), self.force, &policy, actor).await?;
        let done = format!("resolved as {}", verdict.as_str());
        match resolution {
            Resolution::Stored => report(desk, &seen, "resolved", &done, Some((id, &verdict))),
            Resolution::Already => {
                let done = "resolved before by the same id; nothing was changed";
                report(desk, &seen, "already", done, Some((id, &verdict)))
            }
            Resolution::Absent => Err(Failure::refused("the record is gone; nothing was changed")),
            Resolution::Changed(state) => Err(Failure::refused(format!(
                "the record has changed since it was read, and is {state} now; nothing was changed"
            ))),
            Resolution::TooEarly(at) => Err(Failure::refused(too_early(at, &seen))),
        }
    }
}

/// Shows what was seen, and asks.
fn confirm(who: &Who, desk: &Desk, seen: &Seen, what: &str) -> Result<(), Failure> {
    who.confirm(desk.json, &table::pairs(view::lines(&seen.record, seen.now)), what)
}

fn unchanged(seen: &Seen, fence: Option<u64>) -> Result<(), Failure> {
    let record = &seen.record;
    if fence.is_some_and(|fence| fence != record.fence.get()) {
        return Err(Failure::refused(format!(
            "the record has the fence {} now; nothing was changed",
            record.fence.get()
        )));
    }
    if record.state != State::Unknown {
        return Err(Failure::refused(format!(
            "the record is {}, and only an unknown one is resolved; nothing was changed",
            record.state
        )));
    }
    Ok(())
}

fn too_early(at: semel::Timestamp, seen: &Seen) -> String {
    format!(
        "the lost holder may still be sending until {} (for another {}); wait, or say --force if you \
         know that it does not; nothing was changed",
        view::instant(at),
        view::short(at, seen.now)
    )
}

/// Gives an intent back: no run of it had an effect, and the next request with the same content runs
#[derive(Args, Debug)]
pub(super) struct Release {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    who: Who,
    /// Although the holder may still be working or sending
    #[arg(long)]
    force: bool,
}

impl Release {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let seen = self.which.find(desk).await?;
        confirm(&self.who, desk, &seen, "Give the intent back?")?;
        let policy = desk.policy(&seen.record.id.scope.operation);
        let released =
            desk.records.release(&seen, self.force, &policy, self.who.signed.actor()).await?;
        match released {
            records::Release::Stored => {
                let done = "given back: the next request with the same content runs";
                report(desk, &seen, "released", done, None)
            }
            records::Release::Changed => Err(Failure::refused(
                "the record has changed since it was read; nothing was changed",
            )),
            records::Release::NotHeld(state) => Err(Failure::refused(format!(
                "the record is {state}: nobody holds it; nothing was changed"
            ))),
            records::Release::TooEarly(at) => Err(Failure::refused(too_early(at, &seen))),
        }
    }
}

fn report(
    desk: &Desk,
    seen: &Seen,
    result: &str,
    done: &str,
    resolved: Option<([u8; 16], &Verdict)>,
) -> Result<Exit, Failure> {
    let id = resolved.as_ref().map(|(id, _)| view::hex(id));
    if desk.json {
        let verdict = resolved.map(|(_, verdict)| verdict.as_str());
        let saw = view::record(&seen.record, seen.now);
        say(&json!({ "result": result, "verdict": verdict, "id": id, "saw": saw }).to_string())?;
    } else {
        let by = id.map(|id| format!(", by the id {id}")).unwrap_or_default();
        say(&format!("\n{done}{by}"))?;
    }
    Ok(Exit::Fine)
}
