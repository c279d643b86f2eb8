//! The verbs, each one atomic step: what a script did by itself, or what [`semel::decide`] says of what it saw, put
//! in the place of just that.

use redis::{Value, cmd};
use semel::{
    Fence, IntentId, Permit, Record, StoreError, StoreErrorKind, Timestamp, Token, codec,
    decide::{
        self, Ask, Decision, Finish, FinishKind, ReleaseAsk, Resolution, ResolveAsk,
        ResolveDecision, Settle,
    },
    record::State,
    store::{
        Actor, ClaimAnswer, Claimed, Completed, ReleaseAnswer, Released, Renew, Renewed,
        capability::AuditRow,
    },
};

use crate::{
    RedisStore, audit,
    error::{self, Fault, odd},
    hints, row,
    space::{Bucket, Place, Space},
};

/// How often a verb decides anew because the record has changed meanwhile. Each time somebody else got on.
const ROUNDS: usize = 64;

/// What a script saw.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) now: Timestamp,
    /// The stored bytes: what is written takes their place, and no other's.
    pub(crate) bytes: Vec<u8>,
    pub(crate) record: Option<Record>,
}

/// What a record is to become.
struct Next<'a> {
    record: &'a Record,
    not_after: Timestamp,
    audit: Option<AuditRow>,
}

impl<'a> Next<'a> {
    const fn of(record: &'a Record) -> Self {
        Self { record, not_after: Timestamp::MAX, audit: None }
    }
}

impl RedisStore {
    /// The keys of a record's scripts, in the order that all of them have.
    pub(crate) fn keys(&self, place: &Place) -> Vec<Vec<u8>> {
        self.keys_of(place, ["r", "o"], ["floor", "names", "held", "due", "mark"])
    }

    /// Some keys of a record, and behind them some of its bucket.
    fn keys_of<const R: usize, const N: usize>(
        &self,
        place: &Place,
        of_record: [&str; R],
        of_bucket: [&str; N],
    ) -> Vec<Vec<u8>> {
        let bucket = self.link.space.bucket(place.bucket);
        let own = of_record.into_iter().map(|what| bucket.of(what, &place.name));
        own.chain(of_bucket.into_iter().map(|what| bucket.key(what))).collect()
    }

    /// Adds what scripts write that would write nothing else, where an answer must count as a write.
    pub(crate) fn mark(&self, bucket: &Bucket, keys: &mut Vec<Vec<u8>>) {
        if self.link.wait.is_wanted() {
            keys.push(bucket.key("mark"));
        }
    }

    pub(crate) async fn claimed(&self, ask: &Ask) -> Result<Claimed, Fault> {
        let place = Space::place(&ask.id);
        if let Some(again) = self.replayed(&place, ask).await? {
            return Ok(again);
        }
        let blank = row::blank(ask);
        let mut keys = self.keys_of(&place, ["r", "o"], ["floor", "names", "held"]);
        self.mark(self.link.space.bucket(place.bucket), &mut keys);
        let not_after = digits(ask.not_after.as_micros());
        let args = [&blank[..], &not_after, &place.name];
        for _ in 0..ROUNDS {
            let said = self.link.tell(place.bucket, &self.scripts.claim, &keys, &args, true);
            let said = match said.await {
                Ok(Value::BulkString(told)) => return fresh(ask, &told),
                Ok(Value::Array(said)) => said,
                Ok(_) => return Err(odd()),
                Err(fault) if fault.next == error::Next::GrantNothing => {
                    return Box::pin(self.told_without_grant(&place, ask, fault)).await;
                }
                Err(fault) => return Err(fault),
            };
            let [now, bytes, outcome, floor] = said.try_into().map_err(|_| odd())?;
            let seen = saw(&ask.id, now, bytes, outcome)?;
            let (now, floor) = (seen.now, fence(floor)?);
            if let Some(answer) = Box::pin(self.decided(&place, seen, ask, floor)).await? {
                if matches!(answer, ClaimAnswer::Replay(_)) {
                    self.has_ended(&place);
                }
                return Ok(Claimed { answer, now });
            }
        }
        Err(contended())
    }

    /// Answers a claim where nothing new is granted: whatever else it comes to, it comes to.
    async fn told_without_grant(
        &self,
        place: &Place,
        ask: &Ask,
        refusal: Fault,
    ) -> Result<Claimed, Fault> {
        let seen = self.seen(place, &ask.id).await?;
        let now = seen.now;
        if matches!(decide::claim(seen.record.as_ref(), ask, now), Decision::Grant(_)) {
            return Err(refusal);
        }
        let answer = Box::pin(self.decided(place, seen, ask, Fence::default())).await?;
        answer.map(|answer| Claimed { answer, now }).ok_or_else(contended)
    }

    /// Replays what was seen to have ended, by a plain read; nothing if it must go by the script.
    ///
    /// The record and its outcome are read in one step, and the answer is as of that step. The time is asked behind
    /// it, while others may be served in between: what is replayed by the later time would have been by the earlier
    /// one. Whatever they do there comes after the answer; and no other answer is given by this way.
    async fn replayed(&self, place: &Place, ask: &Ask) -> Result<Option<Claimed>, Fault> {
        let Some(ended) = self.ended.as_ref().filter(|ended| ended.has(place)) else {
            return Ok(None);
        };
        let bucket = self.link.space.bucket(place.bucket);
        let mut read = cmd("MGET");
        read.arg(bucket.of("r", &place.name)).arg(bucket.of("o", &place.name));
        let (told, now) = self.link.look_timed(place.bucket, &read).await?;
        let Value::Array(told) = told else { return Err(odd()) };
        let [bytes, outcome] = told.try_into().map_err(|_| odd())?;
        let seen = saw_at(&ask.id, now, bytes, outcome)?;
        match (decide::claim(seen.record.as_ref(), ask, now), seen.record) {
            (Decision::Replay, Some(record)) if record.outcome.is_some() => {
                let answer = ClaimAnswer::Replay(Box::new(record));
                Ok(Some(Claimed { answer, now }))
            }
            _ => {
                ended.strike(place);
                Ok(None)
            }
        }
    }

    /// Notes what is likely to be asked for again.
    fn has_ended(&self, place: &Place) {
        if let Some(ended) = &self.ended {
            ended.note(place);
        }
    }

    /// Answers a claim by what is stored; `None` if that has changed meanwhile.
    async fn decided(
        &self,
        place: &Place,
        seen: Seen,
        ask: &Ask,
        floor: Fence,
    ) -> Result<Option<ClaimAnswer>, Fault> {
        let (record, now) = (seen.record.as_ref(), seen.now);
        let (next, answer) = match (decide::claim(record, ask, now), record) {
            // What was absent is granted by the script alone.
            (Decision::Grant(_), None) => return Ok(None),
            (Decision::Grant(grant), Some(_)) => {
                let next = decide::grant(record, ask, grant, floor, now);
                let permit = next.permit();
                (next, ClaimAnswer::Granted { permit, grant: Some(grant) })
            }
            (Decision::Lose(refusal), Some(held)) => {
                (decide::lose(held, now), ClaimAnswer::Refused(refusal))
            }
            (Decision::RefuseAndRewind(refusal), Some(held)) => {
                (decide::rewind(held, now), ClaimAnswer::Refused(refusal))
            }
            (decision, _) => return Ok(Some(settled(decision, seen.record))),
        };
        let next = Next { not_after: ask.not_after, ..Next::of(&next) };
        Ok(self.swap(place, &seen, next).await?.then_some(answer))
    }

    pub(crate) async fn renewed(&self, renewal: &Renew) -> Result<Renewed, Fault> {
        let place = Space::place(&renewal.id);
        let bucket = self.link.space.bucket(place.bucket);
        let mut keys = vec![bucket.of("r", &place.name), bucket.key("floor")];
        self.mark(bucket, &mut keys);
        let permit = permit_bytes(renewal.token, renewal.fence);
        let lease = row::span(renewal.lease).to_be_bytes();
        let args = [&permit[..], &lease];
        let said = self.link.run(place.bucket, &self.scripts.renew, &keys, &args).await?;
        match &said[..] {
            [_, Value::Int(1)] => Ok(Renewed::Held),
            [_, Value::Int(_)] => Ok(Renewed::Stale),
            _ => Err(odd()),
        }
    }

    pub(crate) async fn completed(
        &self,
        permit: &Permit,
        finish: &Finish,
    ) -> Result<Completed, Fault> {
        let place = Space::place(&permit.id);
        for _ in 0..ROUNDS {
            let Some(seen) = self.ended_by(&place, permit, finish).await? else {
                if finish.outcome.is_some() {
                    self.has_ended(&place);
                }
                return Ok(Completed::Stored);
            };
            let (record, now) = (seen.record.as_ref(), seen.now);
            match decide::complete(record, permit.token, permit.fence, finish, now) {
                Settle::Write(next) => {
                    if Box::pin(self.swap(&place, &seen, Next::of(&next))).await? {
                        return Ok(Completed::Stored);
                    }
                }
                Settle::Already => {
                    let record = seen.record.ok_or_else(odd)?;
                    return Ok(Completed::Already(Box::new(record)));
                }
                Settle::Stale => {
                    if finish.kind != FinishKind::Unknown {
                        self.noted(&AuditRow::conflict(permit, finish, now)).await?;
                    }
                    return Ok(Completed::Stale);
                }
            }
        }
        Err(contended())
    }

    /// Ends a run that is still its permit's, in one step; else tells what is stored.
    async fn ended_by(
        &self,
        place: &Place,
        permit: &Permit,
        finish: &Finish,
    ) -> Result<Option<Seen>, Fault> {
        let state = match finish.kind {
            FinishKind::Done => State::Done,
            FinishKind::Failed => State::Failed,
            // It writes less than the others, and seldom: what is stored is read first.
            FinishKind::Unknown => return self.seen(place, &permit.id).await.map(Some),
        };
        let pointer = finish.outcome.as_ref().and_then(|outcome| outcome.pointer.as_ref());
        let rest = row::rest(finish.reason.as_deref(), pointer);
        let outcome = finish.outcome.as_ref().map(codec::encode);
        let mut keys = self.keys_of(place, ["r", "o", "w"], ["floor", "held", "due"]);
        self.mark(self.link.space.bucket(place.bucket), &mut keys);
        let said = self
            .link
            .tell(
                place.bucket,
                &self.scripts.complete,
                &keys,
                &[
                    &permit_bytes(permit.token, permit.fence),
                    &[row::letter(state)],
                    &digits(row::span(finish.replay_for)),
                    &digits(row::span(finish.remember_for.max(finish.replay_for))),
                    &rest,
                    outcome.as_deref().unwrap_or_default(),
                    &place.name,
                ],
                false,
            )
            .await?;
        let said = match said {
            Value::Int(1) => return Ok(None),
            Value::Array(said) => said,
            _ => return Err(odd()),
        };
        let [now, bytes, outcome] = said.try_into().map_err(|_| odd())?;
        saw(&permit.id, now, bytes, outcome).map(Some)
    }

    pub(crate) async fn released(
        &self,
        id: &IntentId,
        ask: &ReleaseAsk,
    ) -> Result<Released, Fault> {
        let place = Space::place(id);
        for _ in 0..ROUNDS {
            let seen = self.seen(&place, id).await?;
            let now = seen.now;
            let answer = match decide::release(seen.record.as_ref(), ask, now) {
                Settle::Already => ReleaseAnswer::Already,
                Settle::Stale => ReleaseAnswer::NotHeld,
                Settle::Write(next) => {
                    if !self.swap(&place, &seen, Next::of(&next)).await? {
                        continue;
                    }
                    ReleaseAnswer::Stored
                }
            };
            return Ok(Released { answer, now });
        }
        Err(contended())
    }

    pub(crate) async fn resolved(
        &self,
        id: &IntentId,
        ask: &ResolveAsk,
        actor: &Actor,
    ) -> Result<Resolution, Fault> {
        let place = Space::place(id);
        for _ in 0..ROUNDS {
            let seen = self.seen(&place, id).await?;
            return Ok(match decide::resolve(seen.record.as_ref(), ask, seen.now) {
                ResolveDecision::Absent => Resolution::Absent,
                ResolveDecision::Already => Resolution::Already,
                ResolveDecision::Changed(state) => Resolution::Changed(state),
                ResolveDecision::TooEarly(instant) => Resolution::TooEarly(instant),
                ResolveDecision::Write(next) => {
                    let audit = AuditRow::resolved(id, &ask.verdict, actor, seen.now);
                    let next = Next { audit: Some(audit), ..Next::of(&next) };
                    if !self.swap(&place, &seen, next).await? {
                        continue;
                    }
                    Resolution::Stored
                }
            });
        }
        Err(contended())
    }

    /// Reads a record and the time.
    pub(crate) async fn seen(&self, place: &Place, id: &IntentId) -> Result<Seen, Fault> {
        let bucket = self.link.space.bucket(place.bucket);
        let mut keys = vec![bucket.of("r", &place.name), bucket.of("o", &place.name)];
        self.mark(bucket, &mut keys);
        let said = self.link.run(place.bucket, &self.scripts.read, &keys, &[]).await?;
        let [now, bytes, outcome] = said.try_into().map_err(|_| odd())?;
        saw(id, now, bytes, outcome)
    }

    /// Reads a record and the time, and asks whoever ends its run to say so.
    pub(crate) async fn watched(&self, place: &Place, id: &IntentId) -> Result<Seen, Fault> {
        let bucket = self.link.space.bucket(place.bucket);
        let keys = ["r", "o", "w"].map(|what| bucket.of(what, &place.name));
        let args = [self.hints.channel.as_bytes(), &digits(hints::WATCHED_MILLIS)];
        let said = self.link.run(place.bucket, &self.scripts.watch, &keys, &args).await?;
        let [now, bytes, outcome] = said.try_into().map_err(|_| odd())?;
        saw(id, now, bytes, outcome)
    }

    /// Writes a record in the place of the one that was seen, and says whether that was still there.
    async fn swap(&self, place: &Place, seen: &Seen, next: Next<'_>) -> Result<bool, Fault> {
        let mut keys = self.keys(place);
        let bucket = self.link.space.bucket(place.bucket);
        keys.extend([bucket.key("audit"), bucket.of("w", &place.name)]);
        let outcome = next.record.outcome.as_ref().map(codec::encode);
        let audit = next.audit.as_ref().map(audit::bytes).unwrap_or_default();
        let args: [&[u8]; 9] = [
            &seen.bytes,
            &digits(seen.now.as_micros()),
            &digits(next.not_after.as_micros()),
            &row::bytes(next.record),
            if outcome.is_some() { b"1" } else { b"0" },
            outcome.as_deref().unwrap_or_default(),
            &place.name,
            &audit,
            &digits(self.audit_max),
        ];
        let grants = next.record.state == State::Running;
        let said = self.link.tell(place.bucket, &self.scripts.swap, &keys, &args, grants).await?;
        let Value::Array(said) = said else { return Err(odd()) };
        match &said[..] {
            [_, Value::Int(done)] => Ok(*done == 1),
            _ => Err(odd()),
        }
    }
}

/// Answers a claim that found nothing stored, by the time and the fence that the script tells.
fn fresh(ask: &Ask, told: &[u8]) -> Result<Claimed, Fault> {
    let (now, fence) = told.split_first_chunk().ok_or_else(odd)?;
    let fence = Fence::new(u64::from_be_bytes(fence.try_into().map_err(|_| odd())?));
    let permit = Permit { id: ask.id.clone(), token: ask.token, fence, incarnation: 0 };
    let answer = ClaimAnswer::Granted { permit, grant: Some(decide::Grant::Fresh) };
    Ok(Claimed { answer, now: Timestamp::from_micros(u64::from_be_bytes(*now)) })
}

/// Answers a claim for which nothing is written.
fn settled(decision: Decision, record: Option<Record>) -> ClaimAnswer {
    match (decision, record) {
        (
            Decision::Refuse(refusal)
            | Decision::Lose(refusal)
            | Decision::RefuseAndRewind(refusal),
            _,
        ) => ClaimAnswer::Refused(refusal),
        (Decision::Replay, Some(record)) => ClaimAnswer::Replay(Box::new(record)),
        (Decision::Yours, Some(record)) => {
            ClaimAnswer::Granted { permit: record.permit(), grant: None }
        }
        (Decision::TooLate, _) => ClaimAnswer::TooLate,
        (Decision::Stale | Decision::Replay | Decision::Yours | Decision::Grant(_), _) => {
            ClaimAnswer::Stale
        }
    }
}

/// A number as the scripts read it.
pub(crate) fn digits(number: impl Into<u64>) -> Vec<u8> {
    number.into().to_string().into_bytes()
}

/// Reads what a script saw of a record.
pub(crate) fn saw(id: &IntentId, now: Value, bytes: Value, outcome: Value) -> Result<Seen, Fault> {
    saw_at(id, instant(now)?, bytes, outcome)
}

/// Reads what was seen of a record, at a time.
fn saw_at(id: &IntentId, now: Timestamp, bytes: Value, outcome: Value) -> Result<Seen, Fault> {
    let bytes = self::bytes(bytes)?;
    let outcome = self::bytes(outcome)?.filter(|_| bytes.as_deref().is_some_and(row::is_ended));
    let record = bytes
        .as_deref()
        .map(|bytes| row::record(id.clone(), bytes, outcome.as_deref()))
        .transpose()?;
    Ok(Seen { now, bytes: bytes.unwrap_or_default(), record })
}

/// Reads an instant that a script told.
pub(crate) fn instant(told: Value) -> Result<Timestamp, Fault> {
    if let Value::Int(micros) = told {
        return Ok(Timestamp::from_micros(u64::try_from(micros).map_err(|_| odd())?));
    }
    let text = bytes(told)?.and_then(|bytes| String::from_utf8(bytes).ok());
    let micros = text.and_then(|text| text.parse().ok()).ok_or_else(odd)?;
    Ok(Timestamp::from_micros(micros))
}

/// Reads bytes, or that there are none.
pub(crate) fn bytes(told: Value) -> Result<Option<Vec<u8>>, Fault> {
    match told {
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::Nil => Ok(None),
        _ => Err(odd()),
    }
}

/// A token and a fence, as they follow each other in a record.
fn permit_bytes(token: Token, fence: Fence) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(token.as_bytes());
    bytes[16..].copy_from_slice(&fence.get().to_be_bytes());
    bytes
}

/// Reads the floor of a bucket's fences, with or without the mark behind it.
pub(crate) fn fence(told: Value) -> Result<Fence, Fault> {
    let Some(bytes) = bytes(told)? else { return Ok(Fence::default()) };
    let number = bytes.first_chunk().ok_or_else(odd)?;
    Ok(Fence::new(u64::from_be_bytes(*number)))
}

fn contended() -> Fault {
    let message = "others change the record faster than this caller decides; try again";
    StoreError::new(StoreErrorKind::Busy, message).into()
}
