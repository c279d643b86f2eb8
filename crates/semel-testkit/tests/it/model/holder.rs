//! What a holder does: the state machine of the engine, from asking to the last repetition.

use semel::decide::{Decision, Grant, OnLost};

use super::{
    moment::Moment,
    properties::{self, Broken},
    rules::{Deadline, Renewal, Tells},
    step::{Fate, Step},
    world::{Effect, End, Holder, Stage},
};

type Judged<T = ()> = Result<T, Broken>;

impl Moment<'_> {
    pub fn of_holder(&mut self, step: Step) -> Judged {
        match step {
            Step::Abandon(holder) | Step::Drop(holder) => self.stage(holder, Stage::Abandoning),
            Step::Ask { holder, content } => self.asks(holder, content),
            Step::Claim { holder, heard } => self.claims(holder, heard)?,
            Step::ClaimLate(holder) => {
                let at = self.at(holder);
                if at.late {
                    at.late = false
                } else {
                    at.flying = false
                }
                self.claim(holder)?;
            }
            Step::EndLate(holder) => {
                self.at(holder).echo = false;
                let end = self.at(holder).end;
                self.finish(holder, end)?;
            }
            Step::Finish { holder, end, fate } => self.ends_run(holder, end, fate)?,
            Step::GiveBack { holder, heard } => self.gives_back(holder, heard)?,
            Step::GiveUp(holder) => {
                if self.rules.engine.tells == Tells::GivingUp && self.at(holder).end == End::Done {
                    self.world.truth.told = Some(holder);
                }
                self.stage(holder, Stage::Over);
            }
            Step::Land(holder) => {
                self.at(holder).effect = Effect::Landed;
                if self.rules.engine.tells == Tells::BeforeCommit {
                    self.world.truth.told = Some(holder);
                }
            }
            Step::Read(holder) => self.reads(holder)?,
            Step::Renew { holder, heard } => self.renews(holder, heard)?,
            Step::Resend(holder) => self.resends(holder),
            Step::RunAnyway(holder) => self.sends(holder)?,
            Step::Start { holder, answered } => self.starts(holder, answered)?,
            _ => {}
        }
        Ok(())
    }

    fn at(&mut self, holder: u8) -> &mut Holder {
        &mut self.world.holders[usize::from(holder)]
    }

    fn asks(&mut self, holder: u8, content: u8) {
        let (not_after, deadline) = (self.bounds.not_after, self.bounds.lease);
        *self.at(holder) = Holder {
            stage: Stage::Asking,
            content,
            sent: 1,
            flying: true,
            not_after,
            deadline,
            ..Holder::IDLE
        };
    }

    /// An answer that did not come in time is asked for again, by the same token.
    fn resends(&mut self, holder: u8) {
        if self.at(holder).flying {
            self.lose_one();
            self.at(holder).late = true;
        }
        self.at(holder).flying = true;
        self.at(holder).sent += 1;
    }

    fn claims(&mut self, holder: u8, heard: bool) -> Judged {
        self.at(holder).flying = false;
        let decision = self.claim(holder)?;
        if !heard {
            self.lose_one();
            return Ok(());
        }
        // With but one copy sent, and that one answered, none is on its way any more.
        if self.at(holder).sent == 1 {
            self.at(holder).sent = 0;
        }
        let ambiguous = self.at(holder).sent > 1;
        match decision {
            Decision::Grant(grant) => self.holds(holder, Some(grant)),
            Decision::Yours => self.holds(holder, None),
            Decision::Replay => {
                self.world.truth.told = self.world.truth.kept;
                self.stage(holder, Stage::Over);
            }
            // An earlier copy may be granted once whoever holds the intent now has ended.
            _ if ambiguous => self.stage(holder, Stage::Abandoning),
            _ => self.stage(holder, Stage::Over),
        }
        Ok(())
    }

    fn holds(&mut self, holder: u8, grant: Option<Grant>) {
        let Some(record) = self.world.record else { return };
        let wait = if self.rules.engine.reconciler_waits { self.bounds.settle } else { 0 };
        let lease = self.bounds.lease;
        let asks_first = (self.rules.asks_first)(grant, self.bounds.on_lost);
        let from_answer = self.rules.engine.deadline == Deadline::FromAnswer;
        let at = self.at(holder);
        at.stage = Stage::Holding;
        (at.fence, at.incarnation) = (record.fence, record.incarnation);
        at.asks_first = asks_first.then_some(wait);
        if from_answer {
            at.deadline = lease;
        }
    }

    /// A renewal beside the work. What was not answered lengthens nothing for the holder.
    fn renews(&mut self, holder: u8, heard: bool) -> Judged {
        let length = u8::try_from(self.bounds.lease).unwrap();
        let held = self.renew(holder, length)?;
        if !heard {
            self.lose_one();
        } else if held {
            self.at(holder).deadline = self.bounds.lease;
        } else if self.at(holder).stage == Stage::Holding {
            // It is told that its lease is lost, and begins nothing.
            self.stage(holder, Stage::Abandoning);
        }
        Ok(())
    }

    fn starts(&mut self, holder: u8, answered: bool) -> Judged {
        if self.at(holder).deadline > 0 || self.rules.engine.deadline == Deadline::Ignored {
            return self.sends(holder);
        }
        self.renews(holder, answered)?;
        if self.at(holder).stage != Stage::Holding {
            return Ok(());
        }
        if answered {
            self.stage(holder, Stage::Renewed);
            return Ok(());
        }
        match self.rules.engine.renewal {
            Renewal::Answered => Ok(()),
            Renewal::Sent => self.sends(holder),
        }
    }

    /// Whoever was frozen before it read the answer to a renewal may be past that deadline too.
    fn reads(&mut self, holder: u8) -> Judged {
        if self.at(holder).deadline > 0 || self.rules.engine.deadline == Deadline::Once {
            return self.sends(holder);
        }
        self.stage(holder, Stage::Holding);
        Ok(())
    }

    fn sends(&mut self, holder: u8) -> Judged {
        properties::sends(&self.world, holder)?;
        self.at(holder).effect = Effect::Flying(self.bounds.settle - 1);
        self.stage(holder, Stage::Started);
        Ok(())
    }

    fn ends_run(&mut self, holder: u8, end: End, fate: Fate) -> Judged {
        self.at(holder).end = end;
        self.meets(fate);
        if fate == Fate::HeldUp {
            self.at(holder).echo = true;
            self.stage(holder, Stage::Ending);
            return Ok(());
        }
        let tells = self.finish(holder, end)?;
        if fate == Fate::AnswerLost {
            self.stage(holder, Stage::Ending);
            return Ok(());
        }
        if tells {
            self.world.truth.told = self.world.truth.kept;
        }
        let gives_back =
            end == End::Clean || end == End::Doubt && self.bounds.on_lost == OnLost::Rerun;
        let many = self.at(holder).sent > 1;
        self.stage(holder, if gives_back && many { Stage::Abandoning } else { Stage::Over });
        Ok(())
    }

    fn gives_back(&mut self, holder: u8, heard: bool) -> Judged {
        let held = self.give_back(holder)?;
        if !heard {
            self.lose_one();
        } else if self.is_definite(holder, held) {
            self.stage(holder, Stage::Gone);
        }
        Ok(())
    }
}
