//! The verbs: what many callers ask at once, done in one statement or one short transaction.

mod claim;
mod complete;
mod look;
mod note;
mod read;
mod release;
mod renew;
mod resolve;

use semel::StoreError;

pub(crate) use self::{
    claim::Claim, complete::Complete, look::Look, note::Note, read::Read, release::Release,
    renew::Renewal, resolve::Resolve,
};
use crate::{error::Fault, link::Step, names::Named};

/// What one caller asks.
pub(crate) trait Verb: Send + Sync + Sized + 'static {
    /// What the caller gets.
    type Answer: Send + 'static;

    /// Whether one batch may name an intent several times. Mostly not: the lock of a name does not
    /// keep apart what one transaction does.
    const REPEATS: bool = false;

    /// The name that it is about, if it is one.
    fn named(&self) -> Option<&Named>;

    /// How many rows and how many bytes it adds to a batch.
    fn size(&self) -> (usize, usize);

    /// Does a batch. It may be done again after a rollback, so it must depend on nothing else.
    fn run(
        step: Step<'_>,
        batch: &[&Self],
    ) -> impl Future<Output = Result<Vec<Answered<Self::Answer>>, Fault>> + Send;

    /// What the caller gets when others kept the lock for all of the store's patience.
    fn gives_up(&self, busy: Busy<Self::Answer>) -> Result<Self::Answer, StoreError>;
}

/// What a batch did for one caller.
#[derive(Debug)]
pub(crate) enum Answered<A> {
    /// It asks again in the next batch.
    Again,
    /// Somebody else had the lock of the name: it asks again after a pause.
    Busy(Busy<A>),
    /// It is answered.
    Done(A),
}

/// What to answer if the lock stays taken; `None` if nothing can be said.
#[derive(Debug)]
pub(crate) struct Busy<A>(pub(crate) Option<A>);
