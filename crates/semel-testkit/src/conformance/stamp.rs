//! The macro that gives a store one named test per promise.

/// Stamps every promise into the crate that names it, as one test each: `claim::…`, `fencing::…`.
///
/// The argument is a type that implements [`StoreUnderTest`](crate::StoreUnderTest) and is visible
/// where the macro stands. The crate needs `tokio` with `macros` and `rt-multi-thread` among its
/// dev-dependencies.
#[macro_export]
macro_rules! conformance {
    ($store:ident) => {
        $crate::promises! { $store
            bridge:
                the_power_is_declared,
                a_look_sees_what_is_committed,
                a_look_changes_nothing,
                a_look_sees_who_holds_it_now,
                looks_beside_a_completion_see_one_truth;
            cancel:
                a_claim_cut_anywhere_is_recognised,
                a_completion_cut_anywhere_is_stored_once,
                a_release_cut_anywhere_is_done_once,
                a_renewal_cut_anywhere_leaves_the_holder,
                a_resolution_cut_anywhere_is_stored_once,
                a_read_cut_anywhere_leaves_a_store_that_goes_on;
            claim:
                a_new_intent_is_granted,
                others_are_told_that_it_is_in_progress,
                an_own_claim_is_recognised_after_a_lost_answer,
                an_own_claim_is_recognised_when_it_comes_late,
                a_late_claim_of_a_new_intent_writes_nothing,
                a_late_claim_of_a_lost_holder_writes_nothing,
                a_late_claim_of_an_open_intent_writes_nothing,
                a_late_claim_of_a_finished_intent_is_replayed,
                a_late_claim_in_a_batch_is_late_alone,
                every_item_of_a_batch_is_decided_by_itself,
                the_same_intent_twice_in_a_batch_is_granted_once,
                the_same_claim_twice_in_a_batch_is_one_claim,
                a_batch_of_the_largest_size_is_served,
                a_batch_of_nothing_is_answered,
                a_claim_tells_the_stores_time,
                a_token_that_was_given_back_is_stale,
                a_token_that_has_finished_is_replayed,
                a_token_that_was_lost_is_told_unknown;
            concurrency:
                one_of_64_callers_wins,
                one_of_64_callers_wins_each_of_16_keys,
                crossing_batches_win_each_key_once,
                copies_of_one_claim_are_one_claim,
                one_of_8_takes_over,
                none_of_8_takes_over_under_hold,
                one_of_16_reopens,
                one_of_8_completions_is_stored,
                a_completion_and_a_release_do_not_both_win,
                a_late_completion_and_a_resolution_do_not_both_win,
                a_storm_leaves_one_truth;
            expiry:
                an_outcome_is_replayed_for_all_of_its_time,
                a_forgotten_outcome_leaves_a_tombstone,
                a_swept_outcome_stays_forgotten_by_a_clock_behind,
                a_swept_tombstone_says_the_same,
                a_record_is_absent_past_its_memory,
                an_open_record_is_absent_past_its_memory,
                nothing_unfinished_is_ever_forgotten,
                a_memory_is_never_shorter_than_the_replay,
                a_retention_of_a_century_is_kept;
            fencing:
                a_foreign_token_changes_nothing,
                a_foreign_fence_changes_nothing,
                a_permit_of_another_intent_changes_nothing,
                a_permit_of_nothing_changes_nothing,
                a_foreign_permit_does_not_settle_what_is_unknown,
                a_released_permit_has_ended,
                a_completed_permit_neither_renews_nor_releases,
                an_unknown_intent_is_not_renewed,
                an_overtaken_holder_does_not_renew,
                an_overtaken_completion_is_a_conflict,
                an_overtaken_release_leaves_the_new_holder,
                every_renewal_of_a_batch_is_decided_by_itself,
                fences_grow_from_claim_to_claim,
                fences_grow_past_the_sweep;
            hints:
                a_completion_is_hinted_at,
                a_release_is_hinted_at,
                a_lost_holder_is_hinted_at_when_it_is_found,
                an_end_in_another_process_is_hinted_at,
                all_who_listen_are_hinted_at,
                what_ended_before_the_watch_is_read_by_it,
                a_watch_reads_as_a_read_does_and_changes_nothing,
                a_watch_over_the_bound_is_refused;
            inspect:
                records_are_listed_in_the_order_of_their_names,
                a_listed_record_is_whole,
                filters_choose,
                stuck_is_what_runs_past_its_lease,
                what_is_no_longer_remembered_is_not_listed,
                pages_follow_each_other,
                a_list_is_bounded,
                counts_are_by_what_records_mean,
                the_audit_comes_newest_first,
                an_audit_row_comes_back_whole;
            lease:
                a_live_holder_is_not_overtaken,
                a_renewed_lease_outlives_its_first_end,
                a_renewal_can_be_repeated,
                a_lapsed_lease_can_be_renewed,
                a_lapsed_lease_can_be_completed,
                a_lapsed_lease_can_be_released,
                hold_makes_a_lost_holder_unknown,
                rerun_takes_over_a_lost_holder,
                reconcile_takes_over_and_asks_first,
                a_renewal_of_nothing_ends_the_lease,
                a_late_completion_ends_what_is_unknown,
                a_late_failure_ends_what_is_unknown,
                a_late_release_opens_what_is_unknown,
                a_holder_in_doubt_makes_it_unknown,
                a_clock_turned_back_lengthens_no_lease;
            limits:
                a_batch_over_the_bound_is_refused_whole,
                an_outcome_over_a_bound_is_refused,
                a_resolution_over_a_bound_is_refused,
                a_claim_over_a_bound_is_refused,
                a_reason_over_the_bound_is_refused,
                reading_answers_in_the_order_asked,
                time_goes_on;
            moving:
                a_closed_store_takes_no_writes,
                a_closed_store_is_closed_for_all,
                a_closed_store_still_answers_what_is_kept,
                a_store_that_waits_for_records_takes_no_others,
                an_opened_store_goes_on,
                what_is_brought_is_kept_as_it_is,
                what_is_brought_is_answered_as_before,
                the_holder_of_a_brought_run_ends_it,
                a_brought_run_is_lost_as_any,
                fences_go_on_above_what_was_brought,
                what_is_brought_twice_is_kept_once,
                a_record_that_differs_stays_and_is_named,
                what_is_over_is_not_brought,
                a_brought_record_over_a_bound_is_refused,
                nothing_is_brought_into_a_store_that_is_not_closed_for_it,
                a_brought_record_is_swept_as_any,
                the_audit_is_read_from_its_beginning,
                the_audit_is_recalled_once_and_in_order;
            outcome:
                an_empty_body_comes_back,
                a_binary_body_comes_back,
                a_large_body_comes_back,
                the_largest_declared_body_comes_back,
                headers_come_back_line_by_line,
                many_headers_come_back,
                a_body_that_was_not_kept_is_told_apart_from_an_empty_one,
                a_pointer_comes_back,
                every_status_comes_back,
                a_final_failure_is_replayed,
                a_repeated_completion_shows_what_is_kept,
                the_first_of_two_ends_wins,
                the_pointer_is_kept_beside_the_outcome;
            powers:
                capabilities_are_stated,
                what_was_acknowledged_survives_as_declared,
                records_are_shared_as_declared,
                one_of_two_handles_wins_each_key;
            refusal:
                other_content_is_a_mismatch_while_running,
                other_content_is_a_mismatch_when_the_holder_is_lost,
                mismatch_comes_before_replay,
                mismatch_comes_before_unknown,
                mismatch_comes_before_forgotten,
                a_refused_caller_changes_nothing,
                replay_first_replays_other_content,
                replay_first_waits_for_the_holder_whatever_the_content,
                replay_first_compares_a_take_over,
                an_older_plan_is_compared_by_the_records_plan,
                an_unknown_plan_is_incomparable,
                a_take_over_keeps_the_first_fingerprint;
            release:
                a_released_intent_is_free_at_once,
                a_clean_release_does_not_compare,
                a_clean_release_keeps_the_incarnation_of_the_same_content,
                a_release_in_doubt_compares,
                a_release_after_a_take_over_compares,
                a_release_by_token_alone_works,
                a_release_of_nothing_tells_the_stores_time,
                an_abandoned_claim_is_given_back_or_too_late,
                a_release_repeated_after_the_next_claim_is_not_held,
                an_open_intent_replays_nothing;
            resolve:
                done_is_replayed,
                failed_is_replayed,
                not_done_runs_the_same_content_once,
                not_done_can_begin_a_new_incarnation,
                not_done_too_early_is_refused,
                not_done_can_be_forced_and_done_needs_no_force,
                a_resolution_is_idempotent_by_its_id,
                a_resolution_of_another_claim_changes_nothing,
                only_what_is_unknown_is_resolved,
                a_completion_after_a_resolution_is_a_conflict,
                a_resolved_permit_neither_renews_nor_releases,
                a_resolution_is_audited,
                a_resolution_repeated_after_the_next_claim_changes_nothing;
            scope:
                tenants_share_nothing,
                operations_share_nothing,
                keys_share_nothing,
                facets_share_nothing,
                case_counts,
                tenants_are_compared_byte_by_byte,
                separators_inside_names_do_not_collide,
                the_longest_names_come_back;
            sweep:
                it_drops_what_is_no_longer_replayed,
                it_deletes_what_is_no_longer_remembered,
                it_never_touches_what_is_unfinished,
                it_never_touches_what_is_still_kept,
                a_step_is_bounded_and_says_whether_more_is_due,
                it_never_touches_what_was_taken_up_again;
        }
    };
}

/// Writes the modules of [`conformance!`](crate::conformance).
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($store:ident $($module:ident: $($promise:ident),+;)+) => {$(
        mod $module {
            use super::$store;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    let fresh = <$store as $crate::StoreUnderTest>::fresh().await;
                    $crate::conformance::$module::$promise(fresh).await;
                }
            )+
        }
    )+};
}

#[cfg(test)]
pub(super) mod tests {
    /// The functions of a module that are promises.
    fn promised(source: &str) -> Vec<&str> {
        let names = source.split("\npub async fn ").skip(1);
        names.map(|rest| rest.split('(').next().unwrap()).collect()
    }

    /// Expects that every promise of these modules is stamped, and that there are so many at least.
    pub(crate) fn assert_stamped(stamped: &str, modules: &[(&str, &str)], at_least: usize) {
        let mut count = 0;
        for (module, source) in modules {
            for promise in promised(source) {
                let line = format!("                {promise}");
                let is_line = |l: &str| l.trim_end_matches([',', ';']) == line;
                assert!(stamped.lines().any(is_line), "{module}::{promise} is not stamped");
                count += 1;
            }
        }
        assert!(count >= at_least, "only {count} promises were found");
    }

    #[test]
    fn every_promise_is_stamped() {
        let stamped = include_str!("stamp.rs");
        let modules = [
            ("bridge", include_str!("bridge.rs")),
            ("cancel", include_str!("cancel.rs")),
            ("claim", include_str!("claim.rs")),
            ("concurrency", include_str!("concurrency.rs")),
            ("expiry", include_str!("expiry.rs")),
            ("fencing", include_str!("fencing.rs")),
            ("hints", include_str!("hints.rs")),
            ("inspect", include_str!("inspect.rs")),
            ("lease", include_str!("lease.rs")),
            ("limits", include_str!("limits.rs")),
            ("moving", include_str!("moving.rs")),
            ("outcome", include_str!("outcome.rs")),
            ("powers", include_str!("powers.rs")),
            ("refusal", include_str!("refusal.rs")),
            ("release", include_str!("release.rs")),
            ("resolve", include_str!("resolve.rs")),
            ("scope", include_str!("scope.rs")),
            ("sweep", include_str!("sweep.rs")),
        ];
        assert_stamped(stamped, &modules, 150);
    }
}
