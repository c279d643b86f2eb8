//! The claim protocol as a model, searched to the end.
//!
//! A world is one key: what the store keeps of it, up to three callers who claim it, an operator, and the
//! history beside them. Whatever can happen next is a [`Step`](step::Step); the search takes every step
//! from every world. Each verb that arrives is decided by the *production* functions of
//! `semel::decide`; the model adds who sends it, when it arrives, and whether its answer is heard.
//!
//! ```text
//!            ┌─resend─┐                              ┌──renew──┐
//!  Idle ──► Asking ◄──┘──granted, yours──► Holding ──┴─start──► Started ──┐
//!             │ └──replay, refused──► Over    │ └─clean, failed─┐   │ done, doubt
//!             └──stops waiting──┐      drops──┤                 ▼   ▼
//!                               ▼             ▼               Ending ──heard, gives up──► Over
//!                          Abandoning ◄───────┘                 │ └──repeats──┐
//!                               └──definite──► Gone             └─────────────┘
//! ```
//!
//! Past its own deadline a holder first renews: `Holding ──► Renewed`, and from there, once it reads the
//! answer, to `Started` if it is not too late again. A claim that was sent may arrive now, later, a second
//! time, or never; so may an end. An effect that was sent happens within `settle_for`, or never. Whoever
//! takes no step is frozen, for as long as it likes.
//!
//! | file | what it holds |
//! |---|---|
//! | `bounds` | how much is searched, and how long things last |
//! | `world` | one moment; what of it can make a difference |
//! | `step` | what may happen next |
//! | `holder`, `moment` | what a step does: engine and callers; store, operator and clock |
//! | `store` | between the small record of the model and the one that production code sees |
//! | `properties`, `ending` | what must hold; that no key stays where it is for ever |
//! | `rules`, `removed` | the rules, and what breaks without each |
//! | `search`, `packed` | every world, the nearest first; a world in 24 bytes |

#![allow(unreachable_pub, reason = "nothing outside of this test sees any of it")]

mod bounds;
mod ending;
mod holder;
mod moment;
mod packed;
mod properties;
mod removed;
mod rules;
mod search;
mod step;
mod store;
mod world;

use semel::decide::OnLost;

use self::{
    bounds::{Bounds, Clock},
    rules::Rules,
    search::search,
};

/// Searches one plan: within CI's bounds, or whole where `SEMEL_MODEL=full` asks for it.
#[track_caller]
fn keeps_every_promise(plan: Bounds) {
    let bounds = match std::env::var("SEMEL_MODEL").as_deref() {
        Ok("full") => plan,
        Ok(wanted) => plan.of(wanted),
        Err(_) => plan.small(),
    };
    match search(&Rules::REAL, &bounds) {
        Ok(seen) => println!("{bounds}: {seen}"),
        Err(way) => panic!("{bounds}: {way}"),
    }
}

#[test]
fn no_order_of_steps_breaks_a_promise_under_hold() {
    keeps_every_promise(Bounds::full("hold", OnLost::Hold));
}

#[test]
fn no_order_of_steps_breaks_a_promise_under_rerun() {
    keeps_every_promise(Bounds::full("rerun", OnLost::Rerun));
}

#[test]
fn no_order_of_steps_breaks_a_promise_under_reconcile() {
    keeps_every_promise(Bounds::full("reconcile", OnLost::Reconcile));
}

#[test]
fn no_order_of_steps_breaks_another_promise_when_an_operator_forces() {
    let plan = Bounds::full("forced, hold", OnLost::Hold);
    keeps_every_promise(Bounds { forces: true, ..plan });
}

#[test]
fn no_order_of_steps_breaks_a_promise_among_two_contents() {
    let plan = Bounds::full("two contents, hold", OnLost::Hold);
    keeps_every_promise(Bounds { contents: 2, lost: 1, ..plan });
}

#[test]
fn no_order_of_steps_breaks_a_promise_among_two_contents_that_are_taken_over() {
    let plan = Bounds::full("two contents, rerun", OnLost::Rerun);
    keeps_every_promise(Bounds { contents: 2, lost: 1, ..plan });
}

#[test]
fn no_order_of_steps_breaks_a_promise_when_claims_arrive_later_than_leases_end() {
    let plan = Bounds::full("late claims, rerun", OnLost::Rerun);
    keeps_every_promise(Bounds { not_after: 4, ..plan });
}

#[test]
fn no_order_of_steps_breaks_a_promise_when_an_embedded_store_is_opened_again() {
    let plan = Bounds::full("restart, hold", OnLost::Hold);
    keeps_every_promise(Bounds { lost: 1, restarts: 1, jump_max: 2, ..plan });
}

#[test]
fn no_order_of_steps_breaks_a_promise_when_a_server_with_a_clock_behind_takes_over() {
    let plan = Bounds::full("failover, hold", OnLost::Hold);
    keeps_every_promise(Bounds { clock: Clock::Server, lost: 1, restarts: 1, jump_max: 2, ..plan });
}

#[test]
fn no_order_of_steps_breaks_a_promise_when_a_server_with_a_clock_behind_hands_over() {
    let plan = Bounds::full("failover, rerun", OnLost::Rerun);
    keeps_every_promise(Bounds { clock: Clock::Server, lost: 1, restarts: 1, jump_max: 2, ..plan });
}
