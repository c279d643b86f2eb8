//! Renewals of leases, of many holders in one statement.

use semel::{
    StoreError,
    store::{Renew, Renewed},
};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    lock::LockSecret,
    names::{Named, Names, bytes, numbers},
    row,
    value::Cells,
};

/// Renews one lease.
#[derive(Debug)]
pub(crate) struct Renewal {
    named: Named,
    renew: Renew,
}

impl Renewal {
    pub(crate) fn new(renew: Renew, secret: &LockSecret) -> Self {
        Self { named: Named::new(renew.id.clone(), secret), renew }
    }
}

impl Verb for Renewal {
    type Answer = Renewed;

    fn named(&self) -> Option<&Named> {
        Some(&self.named)
    }

    fn size(&self) -> (usize, usize) {
        (1, 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Renewed>>, Fault> {
        let names = Names::of(batch.iter().map(|renewal| &renewal.named));
        let [tenants, operations, keys, facets] = names.params();
        let renews = || batch.iter().map(|renewal| &renewal.renew);
        let tokens: Vec<_> = renews().map(|renew| renew.token.as_bytes().as_slice()).collect();
        let fences: Vec<_> = renews().map(|renew| row::number(renew.fence)).collect();
        let leases: Vec<_> = renews().map(|renew| row::span(renew.lease)).collect();
        let params = [
            tenants,
            operations,
            keys,
            facets,
            names.locks(),
            bytes(&tokens),
            numbers(&fences),
            numbers(&leases),
        ];
        let rows = step.alone(&step.statements().lease_renew, &params).await?;
        let answered = rows.iter().map(|row| {
            let renewed = match row.truth(1)? {
                Some(true) => Renewed::Held,
                _ => Renewed::Stale,
            };
            Ok(match row.truth(0)? {
                Some(true) => Answered::Done(renewed),
                _ => Answered::Busy(Busy(Some(renewed))),
            })
        });
        answered.collect()
    }

    /// Whoever has the lock all this time is an open transaction, such as the application's that
    /// completes the intent: nobody takes the lease over while it lasts.
    fn gives_up(&self, busy_renewed: Busy<Renewed>) -> Result<Renewed, StoreError> {
        match busy_renewed.0.ok_or_else(busy)? {
            Renewed::Held => Ok(Renewed::Busy),
            renewed => Ok(renewed),
        }
    }
}
