//! What must hold: each write and each answer is judged by the history beside the record.

use std::fmt;

use semel::{
    State,
    decide::{Decision, Grant, OnLost, Refusal},
};

use super::{
    bounds::Bounds,
    store,
    world::{BY_OPERATOR, Effect, End, Stage, Standing, World},
};

/// A promise that was broken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Broken {
    /// An outcome that a client was told as final is not what is kept.
    AcknowledgedLost,
    /// A fence did not grow.
    FenceShrank,
    /// A claim that was given back for certain was granted.
    Ghost,
    /// Derived keys changed while an effect under the old ones may exist.
    IncarnationMoved,
    /// What is remembered was forgotten before its time.
    RetentionCut,
    /// Two effects.
    SecondEffect,
    /// Somebody was granted the intent beside a holder whose lease was not over.
    SecondHolder,
    /// A permit that had ended wrote.
    SupersededWrite,
    /// One derived key was used for two contents.
    TwoContents,
    /// A lost holder, or an effect that nobody waits for, that nobody is told of.
    Unreported,
    /// An answer that was not true.
    Untruthful(&'static str),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedLost => "an acknowledged outcome is lost",
            Self::FenceShrank => "a fence did not grow",
            Self::Ghost => "a claim that was given back for certain was granted",
            Self::IncarnationMoved => "derived keys changed while an effect may exist",
            Self::RetentionCut => "something was forgotten before its time",
            Self::SecondEffect => "a second effect",
            Self::SecondHolder => "a second holder beside one whose lease is not over",
            Self::SupersededWrite => "a superseded holder wrote",
            Self::TwoContents => "one derived key was used for two contents",
            Self::Unreported => "a lost holder or a late effect is not reported",
            Self::Untruthful(answer) => return write!(f, "the answer {answer:?} is not true"),
        })
    }
}

type Verdict = Result<(), Broken>;

pub fn demand(holds: bool, broken: Broken) -> Verdict {
    if holds { Ok(()) } else { Err(broken) }
}

/// Judges what a claim met, before anything of it is written.
pub fn claim(world: &World, holder: u8, decision: &Decision, on_lost: OnLost) -> Verdict {
    let (truth, asks) = (&world.truth, &world.holders[usize::from(holder)]);
    let remembered = truth.is_remembered();
    let same = asks.content == truth.content;
    let standing = truth.standing;
    let own = truth.owner == holder;
    let says = |holds: bool, answer| demand(holds, Broken::Untruthful(answer));
    match decision {
        Decision::Grant(grant) => {
            demand(asks.stage != Stage::Gone, Broken::Ghost)?;
            granted(world, *grant, same, on_lost)
        }
        Decision::Yours => says(standing == Standing::Held && own, "yours"),
        Decision::Lose(refusal) => {
            let lost = standing == Standing::Held && truth.lease_left <= 0;
            demand(lost, Broken::SecondHolder)?;
            says(same && matches!(refusal, Refusal::Unknown { .. }), "unknown")
        }
        Decision::Refuse(refusal) | Decision::RefuseAndRewind(refusal) => match refusal {
            Refusal::Mismatch => {
                let compares = standing != Standing::Free { compare: false };
                says(remembered && !same && compares, "mismatch")
            }
            Refusal::Unknown { .. } => says(same && standing == Standing::Doubted, "unknown"),
            Refusal::Forgotten { .. } => {
                let over = standing == Standing::Ended && truth.replay_until <= 0;
                says(same && over && remembered, "forgotten")
            }
            Refusal::InProgress { .. } => {
                says(same && standing == Standing::Held && !own, "in progress")?;
                demand(truth.busy_left > 0, Broken::Unreported)
            }
            _ => Err(Broken::Untruthful("another refusal")),
        },
        Decision::Replay => {
            let kept = world.record.filter(|record| record.outcome).map(|record| record.pointer);
            let ended = standing == Standing::Ended && remembered && truth.replay_until > 0;
            says(same && ended && kept == Some(truth.kept), "replay")
        }
        Decision::Stale => says(own && matches!(standing, Standing::Free { .. }), "stale claim"),
        Decision::TooLate => says(asks.not_after < 0, "too late"),
    }
}

fn granted(world: &World, grant: Grant, same: bool, on_lost: OnLost) -> Verdict {
    let truth = &world.truth;
    match (grant, truth.standing) {
        (Grant::Fresh, Standing::Ended) if truth.is_remembered() && truth.told.is_some() => {
            Err(Broken::AcknowledgedLost)
        }
        (Grant::Fresh, _) => demand(!truth.is_remembered(), Broken::RetentionCut),
        (Grant::Reopened, Standing::Free { compare }) => {
            demand(truth.is_remembered() && (same || !compare), Broken::IncarnationMoved)
        }
        (Grant::TakenOver { .. }, Standing::Held) => {
            demand(truth.lease_left <= 0 && on_lost != OnLost::Hold, Broken::SecondHolder)?;
            demand(same, Broken::TwoContents)
        }
        _ => Err(Broken::SecondHolder),
    }
}

/// Judges that derived keys are what they were, unless no effect can exist under the old ones.
pub fn incarnation(world: &World, next: u8) -> Verdict {
    let moved = next != world.truth.incarnation && world.truth.standing != Standing::Nothing;
    let acted = world.holders.iter().any(|holder| holder.effect.may_be());
    demand(!moved || !acted, Broken::IncarnationMoved)
}

/// Judges an effect that is sent: under one derived key there is one content.
pub fn sends(world: &World, holder: u8) -> Verdict {
    let own = &world.holders[usize::from(holder)];
    let differs = world.holders.iter().any(|other| {
        other.effect.may_be()
            && other.incarnation == own.incarnation
            && other.content != own.content
    });
    demand(!differs, Broken::TwoContents)
}

/// Judges what must be true at every moment.
pub fn always(world: &World, bounds: &Bounds) -> Verdict {
    let truth = &world.truth;
    if bounds.on_lost != OnLost::Rerun && !truth.forced {
        demand(world.landed() < 2, Broken::SecondEffect)?;
    }
    let record = world.record.as_ref();
    if let Some(told) = truth.told.filter(|_| truth.is_remembered()) {
        let stands = match truth.standing {
            Standing::Held => truth.owner == told,
            Standing::Ended => {
                truth.kept == Some(told)
                    && record.is_some_and(|record| {
                        record.pointer == Some(told)
                            && matches!(record.state, State::Done | State::Failed)
                            && (record.outcome || truth.replay_until <= 0)
                    })
            }
            _ => false,
        };
        demand(stands, Broken::AcknowledgedLost)?;
    }
    let lost = match truth.standing {
        Standing::Held => truth.busy_left <= 0 && !truth.fell_back,
        Standing::Doubted => true,
        _ => false,
    };
    demand(!lost || record.is_some_and(store::is_listed), Broken::Unreported)
}

/// Says whether a holder's run is one that ended by itself, as it says.
pub fn is_own_end(world: &World, holder: u8, end: End) -> bool {
    let truth = &world.truth;
    let own = truth.owner == holder && truth.resolved_by == 0;
    match end {
        End::Clean => own && matches!(truth.standing, Standing::Free { .. }),
        End::Doubt => own && matches!(truth.standing, Standing::Doubted | Standing::Ended),
        _ => own && truth.standing == Standing::Ended && truth.kept != Some(BY_OPERATOR),
    }
}

/// Says whether a completion that came too late tells of an effect.
pub fn acted(world: &World, holder: u8) -> bool {
    world.holders[usize::from(holder)].effect == Effect::Landed
}

/// Says whether this claim is the first to look at the lease since the clock fell back: what it meets may
/// begin anew.
pub fn begins_anew(world: &World, decision: &Decision) -> bool {
    let looks = match decision {
        Decision::Refuse(refusal) | Decision::RefuseAndRewind(refusal) => {
            matches!(refusal, Refusal::InProgress { .. })
        }
        _ => false,
    };
    looks && world.truth.fell_back
}
