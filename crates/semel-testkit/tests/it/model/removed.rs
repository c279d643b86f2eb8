//! Each rule taken out: what breaks then, by the shortest way. A model in which a rule can be missed
//! without harm would be too weak, or the rule idle.

use std::time::Duration;

use semel::{
    Record, State, Timestamp, Token,
    decide::{self, Decision, Grant, OnLost, Refusal, ResolveAsk, ResolveDecision, Settle},
};

use super::{
    bounds::{Bounds, Clock},
    properties::Broken,
    rules::{Deadline, Engine, GivenBack, Gives, Renewal, Rules, Store, StoreAway, Tells, Time},
    search::search,
};

const REAL: Rules = Rules::REAL;

/// Two callers and one lost answer, which is enough for most.
const fn small(on_lost: OnLost) -> Bounds {
    Bounds { holders: 2, lost: 1, ..Bounds::full("small", on_lost) }
}

const HOLD: Bounds = small(OnLost::Hold);
const RERUN: Bounds = small(OnLost::Rerun);
const CONTENTS: Bounds = Bounds { contents: 2, ..HOLD };
const CLOCK: Bounds = Bounds { restarts: 1, jump_max: 1, ..HOLD };

/// Shows the shortest way on which a world without the rule breaks a promise.
#[track_caller]
fn breaks(expected: Broken, rules: Rules, bounds: &Bounds) {
    let way = search(&rules, bounds).expect_err("nothing breaks without this rule");
    println!("{way}");
    assert_eq!(way.broken, expected, "{way}");
}

const fn with_engine(engine: Engine) -> Rules {
    Rules { engine, ..REAL }
}

const fn with_store(store: Store) -> Rules {
    Rules { store, ..REAL }
}

fn changed(settle: Settle, change: impl FnOnce(&mut Record)) -> Settle {
    match settle {
        Settle::Write(mut next) => {
            change(&mut next);
            Settle::Write(next)
        }
        other => other,
    }
}

/// Shows a verb a record that is still running, whatever it is.
fn running(seen: Option<&Record>) -> Option<Record> {
    seen.cloned().map(|mut record| {
        record.state = State::Running;
        record.resolved_by = None;
        record
    })
}

const NONE: Duration = Duration::ZERO;

const NO_TOKEN: Token = Token::from_bytes([u8::MAX; 16]);

mod rule_1 {
    use super::*;

    #[test]
    fn without_the_token_a_caller_that_went_away_gives_back_what_another_holds() {
        let release = |seen: Option<&Record>, ask: &decide::ReleaseAsk, now| {
            let token = seen.map_or(ask.token, |record| record.token);
            decide::release(seen, &decide::ReleaseAsk { token, ..ask.clone() }, now)
        };
        breaks(Broken::SupersededWrite, Rules { release, ..REAL }, &HOLD);
    }

    #[test]
    fn without_the_fence_an_old_permit_writes_when_a_late_copy_was_granted_its_token_again() {
        let complete = |seen: Option<&Record>, (token, fence), finish: &decide::Finish, now| {
            let fence = seen.map_or(fence, |record| record.fence);
            decide::complete(seen, token, fence, finish, now)
        };
        let bounds = Bounds { not_after: 4, ..RERUN };
        breaks(Broken::SupersededWrite, Rules { complete, ..REAL }, &bounds);
    }

    #[test]
    fn without_token_and_fence_an_overtaken_holder_completes() {
        let complete = |seen: Option<&Record>, own: (Token, _), finish: &decide::Finish, now| {
            let (token, fence) = seen.map_or(own, |record| (record.token, record.fence));
            decide::complete(seen, token, fence, finish, now)
        };
        breaks(Broken::SupersededWrite, Rules { complete, ..REAL }, &RERUN);
    }

    #[test]
    fn without_the_state_a_completion_writes_over_what_an_operator_said() {
        let complete = |seen: Option<&Record>, (token, fence), finish: &decide::Finish, now| {
            decide::complete(running(seen).as_ref(), token, fence, finish, now)
        };
        breaks(Broken::SupersededWrite, Rules { complete, ..REAL }, &HOLD);
    }

    #[test]
    fn without_the_state_a_release_writes_over_what_an_operator_said() {
        let release = |seen: Option<&Record>, ask: &decide::ReleaseAsk, now| {
            decide::release(running(seen).as_ref(), ask, now)
        };
        breaks(Broken::SupersededWrite, Rules { release, ..REAL }, &HOLD);
    }

    #[test]
    fn without_the_state_a_renewal_revives_a_lost_holder() {
        let renew = |seen: Option<&Record>, (token, fence), length, now| {
            decide::renew(running(seen).as_ref(), token, fence, length, now)
        };
        breaks(Broken::SupersededWrite, Rules { renew, ..REAL }, &HOLD);
    }

    #[test]
    fn if_a_lapsed_lease_alone_ended_a_permit_the_only_witness_would_be_sent_away() {
        let complete = |seen: Option<&Record>, (token, fence), finish: &decide::Finish, now| {
            let seen = seen.filter(|record| !record.lapsed(now));
            decide::complete(seen, token, fence, finish, now)
        };
        breaks(Broken::Untruthful("stale end"), Rules { complete, ..REAL }, &HOLD);
    }

    #[test]
    fn if_a_resolution_did_not_kill_the_permit_its_holder_would_write_over_it() {
        let complete = |seen: Option<&Record>, (token, fence), finish: &decide::Finish, now| {
            let ends = finish.kind != decide::FinishKind::Unknown;
            let seen = seen.cloned().map(|mut record| {
                if ends && record.resolved_by.take().is_some() {
                    record.state = State::Unknown;
                }
                record
            });
            decide::complete(seen.as_ref(), token, fence, finish, now)
        };
        breaks(Broken::SupersededWrite, Rules { complete, ..REAL }, &HOLD);
    }

    #[test]
    fn without_the_token_and_fence_that_the_operator_saw_a_repeat_resolves_another_claim() {
        let resolve = |seen: Option<&Record>, ask: &ResolveAsk, now| {
            let (token, fence) = seen.map_or((ask.token, ask.fence), |r| (r.token, r.fence));
            let settle_for = if token == ask.token { ask.settle_for } else { NONE };
            let ask = ResolveAsk { token, fence, settle_for, ..ask.clone() };
            decide::resolve(seen, &ask, now)
        };
        breaks(Broken::SupersededWrite, Rules { resolve, ..REAL }, &HOLD);
    }

    #[test]
    fn without_the_state_that_the_operator_saw_a_resolution_writes_over_an_end() {
        let resolve = |seen: Option<&Record>, ask: &ResolveAsk, now| {
            let seen = seen.cloned().map(|mut record| {
                record.state = State::Unknown;
                record
            });
            let ask = ResolveAsk { settle_for: NONE, ..ask.clone() };
            decide::resolve(seen.as_ref(), &ask, now)
        };
        breaks(Broken::SupersededWrite, Rules { resolve, ..REAL }, &HOLD);
    }
}

mod rule_2 {
    use super::*;

    /// A claim that is compared with nothing if the record stands so.
    fn uncompared(
        seen: Option<&Record>,
        ask: &decide::Ask,
        now: Timestamp,
        stands: fn(&Record, Timestamp) -> bool,
    ) -> Decision {
        match seen.filter(|record| stands(record, now)) {
            Some(record) => {
                let fingerprint = record.fingerprint;
                decide::claim(seen, &decide::Ask { fingerprint, ..ask.clone() }, now)
            }
            None => decide::claim(seen, ask, now),
        }
    }

    #[test]
    fn if_in_progress_came_before_mismatch_other_content_would_wait_for_nothing() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            uncompared(seen, ask, now, |r, now| r.state == State::Running && !r.lapsed(now))
        };
        breaks(Broken::Untruthful("in progress"), Rules { claim, ..REAL }, &CONTENTS);
    }

    #[test]
    fn if_unknown_came_before_mismatch_other_content_would_be_told_of_an_effect_not_its_own() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            uncompared(seen, ask, now, |record, _| record.state == State::Unknown)
        };
        breaks(Broken::Untruthful("unknown"), Rules { claim, ..REAL }, &CONTENTS);
    }

    #[test]
    fn if_forgotten_came_before_mismatch_other_content_would_be_told_it_was_done() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            uncompared(seen, ask, now, |r, now| r.phase(now) == semel::Phase::Forgotten)
        };
        breaks(Broken::Untruthful("forgotten"), Rules { claim, ..REAL }, &CONTENTS);
    }

    #[test]
    fn if_replay_came_before_mismatch_other_content_would_get_an_outcome_not_its_own() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            uncompared(seen, ask, now, |r, _| matches!(r.state, State::Done | State::Failed))
        };
        breaks(Broken::Untruthful("replay"), Rules { claim, ..REAL }, &CONTENTS);
    }

    #[test]
    fn if_a_take_over_did_not_compare_other_content_would_run_under_the_same_derived_keys() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            uncompared(seen, ask, now, |r, now| r.state == State::Running && r.lapsed(now))
        };
        let bounds = Bounds { contents: 2, ..RERUN };
        breaks(Broken::TwoContents, Rules { claim, ..REAL }, &bounds);
    }

    #[test]
    fn if_a_release_after_a_take_over_did_not_compare_derived_keys_would_change_beside_an_effect() {
        let release = |seen: Option<&Record>, ask: &decide::ReleaseAsk, now| {
            changed(decide::release(seen, ask, now), |next| next.compare = false)
        };
        let bounds = Bounds { holders: 3, lost: 0, contents: 2, ..RERUN };
        breaks(Broken::IncarnationMoved, Rules { release, ..REAL }, &bounds);
    }

    #[test]
    fn if_open_after_a_resolution_did_not_compare_derived_keys_would_change() {
        let resolve =
            |seen: Option<&Record>, ask: &ResolveAsk, now| match decide::resolve(seen, ask, now) {
                ResolveDecision::Write(mut next) => {
                    next.compare = false;
                    ResolveDecision::Write(next)
                }
                other => other,
            };
        breaks(Broken::IncarnationMoved, Rules { resolve, ..REAL }, &CONTENTS);
    }
}

mod rule_4 {
    use super::*;

    #[test]
    fn if_the_caller_brought_the_time_a_holder_would_be_lost_within_its_lease() {
        let store = Store { time: Time::Caller, ..REAL.store };
        breaks(Broken::SecondHolder, with_store(store), &Bounds { not_after: 3, ..HOLD });
    }

    #[test]
    fn if_the_time_were_read_when_the_transaction_began_a_late_claim_would_be_granted() {
        let store = Store { time: Time::Began, ..REAL.store };
        let bounds = Bounds { not_after: 1, replay_for: 7, remember_for: 7, ..HOLD };
        breaks(Broken::Ghost, with_store(store), &bounds);
    }

    #[test]
    fn if_the_time_were_not_persisted_a_clock_set_back_would_lengthen_a_lease_without_bound() {
        let store = Store { persists_time: false, ..REAL.store };
        breaks(Broken::Unreported, with_store(store), &CLOCK);
    }

    #[test]
    fn if_a_lease_renewed_in_the_future_were_not_rewritten_its_key_would_stay_in_progress() {
        let rewind = |record: &Record, _| record.clone();
        let bounds = Bounds { clock: Clock::Server, ..CLOCK };
        breaks(Broken::Unreported, Rules { rewind, ..REAL }, &bounds);
    }
}

mod rule_5 {
    use super::*;

    #[test]
    fn without_the_instant_after_which_a_claim_is_late_a_copy_is_granted_to_nobody() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            decide::claim(seen, &decide::Ask { not_after: Timestamp::MAX, ..ask.clone() }, now)
        };
        breaks(Broken::Ghost, Rules { claim, ..REAL }, &HOLD);
    }

    #[test]
    fn if_an_open_record_forgot_the_last_token_a_copy_of_the_released_claim_would_be_granted() {
        let release = |seen: Option<&Record>, ask: &decide::ReleaseAsk, now| {
            changed(decide::release(seen, ask, now), |next| next.token = NO_TOKEN)
        };
        breaks(Broken::Untruthful("not held"), Rules { release, ..REAL }, &HOLD);
    }

    #[test]
    fn if_an_end_forgot_the_last_token_its_repetition_would_be_called_stale() {
        let complete = |seen: Option<&Record>, (token, fence), finish: &decide::Finish, now| {
            changed(decide::complete(seen, token, fence, finish, now), |next| {
                next.token = NO_TOKEN;
            })
        };
        breaks(Broken::Untruthful("stale end"), Rules { complete, ..REAL }, &HOLD);
    }

    #[test]
    fn if_a_claim_did_not_know_its_own_token_its_repetition_would_wait_for_itself() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            decide::claim(seen, &decide::Ask { token: NO_TOKEN, ..ask.clone() }, now)
        };
        breaks(Broken::Untruthful("in progress"), Rules { claim, ..REAL }, &HOLD);
    }

    #[test]
    fn if_the_id_of_a_resolution_were_not_kept_its_repetition_would_be_told_of_a_change() {
        let resolve = |seen: Option<&Record>, ask: &ResolveAsk, now| {
            let seen = seen.cloned().map(|mut record| {
                record.resolved_by = None;
                record
            });
            decide::resolve(seen.as_ref(), ask, now)
        };
        breaks(Broken::Untruthful("changed"), Rules { resolve, ..REAL }, &HOLD);
    }

    #[test]
    fn if_a_release_did_not_wait_for_the_claim_on_its_way_that_would_be_granted_to_nobody() {
        let engine = Engine { given_back: GivenBack::AtOnce, ..REAL.engine };
        breaks(Broken::Ghost, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_one_copy_given_back_were_the_last_word_another_would_be_granted_to_nobody() {
        let engine = Engine { given_back: GivenBack::OneCopy, ..REAL.engine };
        breaks(Broken::Ghost, with_engine(engine), &HOLD);
    }
}

mod rule_7 {
    use super::*;

    #[test]
    fn if_a_caller_ran_whose_claim_cannot_be_stored_there_would_be_two_effects() {
        let engine = Engine { store_away: StoreAway::Run, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &HOLD);
    }
}

mod rule_8 {
    use super::*;

    #[test]
    fn if_a_client_were_told_before_the_commit_its_outcome_could_be_lost() {
        let engine = Engine { tells: Tells::BeforeCommit, ..REAL.engine };
        breaks(Broken::AcknowledgedLost, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_a_client_were_told_success_when_the_end_could_not_be_stored_it_could_be_lost() {
        let engine = Engine { tells: Tells::GivingUp, ..REAL.engine };
        breaks(Broken::AcknowledgedLost, with_engine(engine), &HOLD);
    }
}

mod rule_9 {
    use super::*;

    #[test]
    fn without_a_deadline_of_its_own_a_frozen_holder_acts_after_not_done() {
        let engine = Engine { deadline: Deadline::Ignored, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_a_renewal_were_believed_in_whenever_it_is_read_a_frozen_holder_would_act() {
        let engine = Engine { deadline: Deadline::Once, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_the_deadline_were_counted_from_the_answer_an_effect_could_come_after_not_done() {
        let engine = Engine { deadline: Deadline::FromAnswer, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_a_renewal_without_an_answer_were_believed_in_a_lost_holder_would_act() {
        let engine = Engine { renewal: Renewal::Sent, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_not_done_could_be_said_at_once_an_effect_on_its_way_would_be_the_first_of_two() {
        let resolve = |seen: Option<&Record>, ask: &ResolveAsk, now| {
            decide::resolve(seen, &ResolveAsk { settle_for: NONE, ..ask.clone() }, now)
        };
        breaks(Broken::SecondEffect, Rules { resolve, ..REAL }, &HOLD);
    }

    #[test]
    fn if_an_operator_gave_back_what_still_runs_its_holder_could_renew_and_act_before() {
        let engine = Engine { operator: Gives::Running, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &HOLD);
    }

    #[test]
    fn if_a_reconciler_did_not_wait_an_effect_on_its_way_would_be_the_first_of_two() {
        let engine = Engine { reconciler_waits: false, ..REAL.engine };
        breaks(Broken::SecondEffect, with_engine(engine), &small(OnLost::Reconcile));
    }

    #[test]
    fn if_a_stale_completion_were_not_kept_a_possible_second_effect_would_be_told_to_nobody() {
        let store = Store { keeps_conflicts: false, ..REAL.store };
        breaks(Broken::Unreported, with_store(store), &HOLD);
    }
}

mod on_lost {
    use super::*;

    #[test]
    fn if_hold_took_over_there_would_be_two_effects() {
        let claim = |seen: Option<&Record>, ask: &decide::Ask, now| {
            let on_lost = OnLost::Rerun;
            decide::claim(seen, &decide::Ask { on_lost, ..ask.clone() }, now)
        };
        breaks(Broken::SecondHolder, Rules { claim, ..REAL }, &HOLD);
    }

    #[test]
    fn if_a_lost_holder_were_waited_for_its_key_would_stay_in_progress() {
        let claim =
            |seen: Option<&Record>, ask: &decide::Ask, now| match decide::claim(seen, ask, now) {
                Decision::Lose(_) => Decision::Refuse(Refusal::InProgress {
                    claimed_at: None,
                    lease_left: NONE,
                    claimed_by: None,
                }),
                other => other,
            };
        breaks(Broken::Unreported, Rules { claim, ..REAL }, &HOLD);
    }
}

mod reconcile {
    use super::*;

    #[test]
    fn if_a_reopened_intent_were_not_asked_for_an_effect_before_a_take_over_would_be_repeated() {
        let asks_first =
            |grant, on_lost| grant != Some(Grant::Reopened) && decide::asks_first(grant, on_lost);
        let bounds = Bounds { holders: 3, lost: 0, ..small(OnLost::Reconcile) };
        breaks(Broken::SecondEffect, Rules { asks_first, ..REAL }, &bounds);
    }
}

mod retention {
    use super::*;

    #[test]
    fn if_the_sweep_did_not_raise_the_floor_a_fence_would_be_given_twice() {
        let store = Store { raises_floor: false, ..REAL.store };
        breaks(Broken::FenceShrank, with_store(store), &HOLD);
    }

    #[test]
    fn if_the_sweep_took_what_is_unknown_it_would_run_again() {
        let sweep = |record: &Record, now| match record.state {
            State::Unknown => decide::Sweep::Delete,
            _ => decide::sweep(record, now),
        };
        breaks(Broken::RetentionCut, Rules { sweep, ..REAL }, &HOLD);
    }

    #[test]
    fn if_an_outcome_were_absent_once_it_is_forgotten_it_would_run_again() {
        let claim =
            |seen: Option<&Record>, ask: &decide::Ask, now| match decide::claim(seen, ask, now) {
                Decision::Refuse(Refusal::Forgotten { .. }) => Decision::Grant(Grant::Fresh),
                other => other,
            };
        breaks(Broken::AcknowledgedLost, Rules { claim, ..REAL }, &HOLD);
    }
}
