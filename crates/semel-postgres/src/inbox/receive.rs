//! The receipt: what is asked in one statement, and what its answer means.

use std::fmt;

use semel::{
    StoreError, StoreErrorKind,
    inbox::{
        Delivery, Position, Recorded,
        receive::{How, Incoming},
    },
};

use super::{
    Handling, Inbox,
    form::{Form, Met},
    known,
};
use crate::{
    error::Fault,
    row,
    transact::{
        Prepared, Transact, Tx,
        source::First,
        tx::{Carry, Text},
    },
    value::{Cells, Value},
};

/// What a receipt inside a transaction meets.
#[must_use]
pub enum Receive<T: Tx> {
    /// The consumer had the message before: nothing is to be done but to acknowledge it, and to send what
    /// its run recorded once more. The transaction comes back. `None` if it is known by its position.
    Duplicate(T, Option<Recorded>),
    /// The message is new: the effect is done, as long as the guard lives.
    First(Handling<T>),
    /// The consumer had another message under this id, and this one is not to be run. The transaction
    /// comes back.
    Mismatch(T, Recorded),
    /// Another transaction won, and this one is rolled back. Begin a new one and receive again.
    Retry(StoreError),
}

impl<T: Tx> fmt::Debug for Receive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(_, recorded) => f.debug_tuple("Duplicate").field(recorded).finish(),
            Self::First(handling) => f.debug_tuple("First").field(handling).finish(),
            Self::Mismatch(_, recorded) => f.debug_tuple("Mismatch").field(recorded).finish(),
            Self::Retry(error) => f.debug_tuple("Retry").field(error).finish(),
        }
    }
}

/// What came of one message.
#[derive(Debug)]
pub(super) enum Told {
    Duplicate(Option<Recorded>),
    Mismatch(Recorded),
}

/// What one receipt asks.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) one: Incoming,
    digest: [u8; 40],
    consumer: Box<str>,
    remember_us: i64,
    idle_ms: Value<'static>,
}

impl Inbox {
    /// Receives a message inside `tx`, in one statement. If another transaction has the same message, it
    /// waits until that one ends.
    ///
    /// # Errors
    ///
    /// Fails, and rolls `tx` back, if it is not what the [module](super) asks for, the delivery has no
    /// position where the consumer knows messages by positions, or the server cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `tx` is rolled back.
    pub async fn receive<T: Tx>(
        &self,
        mut tx: T,
        delivery: &Delivery,
    ) -> Result<Receive<T>, StoreError> {
        tx.admit()?;
        let asked = self.asked(delivery)?;
        let answer = tx.ask(asked.text(&self.transact, None), &asked.values()).await;
        match asked.met(self, tx, answer).await {
            Ok(Met::Run(guard)) => Ok(Receive::First(guard)),
            Ok(Met::Told(tx, Told::Duplicate(recorded))) => Ok(Receive::Duplicate(tx, recorded)),
            Ok(Met::Told(tx, Told::Mismatch(recorded))) => Ok(Receive::Mismatch(tx, recorded)),
            Ok(Met::Retry(error)) => Ok(Receive::Retry(error)),
            Err(fault) if fault.lost_race() => Ok(Receive::Retry(fault.into())),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Prepares what a receipt asks.
    pub(super) fn asked(&self, delivery: &Delivery) -> Result<Asked, StoreError> {
        let fingerprint = (self.fingerprint)(delivery);
        Ok(Asked {
            one: Incoming::new(delivery, self.policy.by, fingerprint)?,
            digest: fingerprint.to_bytes(),
            consumer: self.consumer().into(),
            remember_us: self.remember_us(),
            idle_ms: self.idle_ms(),
        })
    }
}

/// An offset as it is stored.
pub(super) fn offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

impl Asked {
    /// The three columns of the name.
    pub(super) fn name(&self) -> [Value<'_>; 3] {
        [
            Value::Text(Some(&self.consumer)),
            Value::Text(Some(self.one.message.source.as_str())),
            Value::Text(Some(self.one.message.id())),
        ]
    }
}

impl First for Asked {
    fn text<'t>(&self, transact: &'t Transact, prepared: Option<&'t Prepared>) -> Text<'t> {
        let (statements, keep) = (&transact.inner.statements, transact.inner.keep);
        let (text, prepared) = match &self.one.how {
            How::New => (&statements.inbox_receive, prepared.map(|prepared| &prepared.receive)),
            How::Parked => (&statements.inbox_receive_parked, None),
            How::At(_) => (&statements.inbox_advance, prepared.map(|prepared| &prepared.advance)),
        };
        Text { text, prepared, keep }
    }

    fn values(&self) -> Vec<Value<'_>> {
        let mut values = self.name().to_vec();
        match &self.one.how {
            How::New => {
                let remember = Value::Bigint(Some(self.remember_us));
                values.extend([Value::Bytes(Some(&self.digest)), remember]);
            }
            How::Parked => {}
            How::At(position) => return self.moves(position),
        }
        values.push(self.idle_ms);
        values
    }
}

impl Asked {
    /// The parameters of a move behind the message.
    fn moves<'a>(&'a self, position: &'a Position) -> Vec<Value<'a>> {
        let from = offset(position.offset);
        vec![
            Value::Text(Some(&self.consumer)),
            Value::Text(Some(position.log.as_str())),
            Value::Bigint(Some(from)),
            Value::Bigint(Some(from.saturating_add(1))),
            self.idle_ms,
        ]
    }
}

impl<T: Tx> Form<T> for Asked {
    type Guard = Handling<T>;
    type Told = Told;

    async fn met(
        self,
        inbox: &Inbox,
        mut tx: T,
        answer: Result<Option<T::Row>, Fault>,
    ) -> Result<Met<T, Handling<T>, Told>, Fault> {
        let mut answer = answer?;
        if let (None, How::At(position)) = (&answer, &self.one.how) {
            // The log is new, or the position stands behind the message.
            let text = (*inbox.transact.inner.statements.inbox_move).into();
            answer = tx.ask(text, &self.moves(position)).await?;
        }
        if let Some(answer) = answer {
            let at = row::instant(&answer, 0)?;
            inbox.durably(&mut tx, answer.truth(1)?).await?;
            return Ok(Met::Run(Handling::new(tx, inbox.clone(), self, at)));
        }
        if !self.one.records() {
            return Ok(Met::Told(tx, Told::Duplicate(None)));
        }
        // A new statement: it sees what the transaction that was waited for has committed.
        let text = (*inbox.transact.inner.statements.inbox_recorded).into();
        let Some(seen) = tx.ask(text, &self.name()).await? else {
            return Ok(Met::Retry(forgotten()));
        };
        let recorded = known::recorded(&seen, 0)?;
        let told = match recorded.is_of_another(&self.one.fingerprint) {
            true => Told::Mismatch(recorded),
            false => Told::Duplicate(Some(recorded)),
        };
        Ok(Met::Told(tx, told))
    }
}

impl Inbox {
    /// Has the transaction commit durably, if it would not: what is acknowledged does not come again.
    pub(super) async fn durably<T: Carry>(
        &self,
        tx: &mut T,
        is_volatile: Option<bool>,
    ) -> Result<(), Fault> {
        if is_volatile == Some(true) {
            let text = (*self.transact.inner.statements.inbox_durably).into();
            tx.ask(text, &[]).await?;
        }
        Ok(())
    }
}

pub(super) fn forgotten() -> StoreError {
    StoreError::new(
        StoreErrorKind::Busy,
        "the message was forgotten at this moment; begin a new transaction and receive again",
    )
}
