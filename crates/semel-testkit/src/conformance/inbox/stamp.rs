//! The macro that gives an inbox one named test per promise.

/// Stamps every promise of an inbox into the module that names it, as one test each: `receiving::…`,
/// `parking::…`.
///
/// The argument is a type that implements
/// [`InboxUnderTest`](crate::conformance::inbox::InboxUnderTest) and is visible where the macro stands.
/// The crate needs `tokio` with `macros` and `rt-multi-thread` among its dev-dependencies.
#[macro_export]
macro_rules! inbox_conformance {
    ($inbox:ident) => {
        $crate::suite_promises! { $inbox inbox
            attempts:
                attempts_are_counted_given_back_and_forgotten,
                the_first_attempt_is_dated,
                a_name_twice_in_a_call_is_one_message,
                a_failed_run_takes_no_attempt_back,
                consumers_and_sources_share_no_attempts,
                attempts_go_with_the_parking,
                an_end_takes_only_the_copy_of_what_is_done;
            batching:
                a_batch_runs_what_is_new_and_tells_of_the_rest,
                a_batch_of_copies_does_nothing,
                a_batch_of_which_one_fails_leaves_nothing,
                what_runs_recorded_is_kept_by_message,
                consumers_of_one_batch_have_it_each,
                a_batch_that_is_none_is_refused,
                a_large_batch_is_handled;
            bounds:
                the_unique_keys_are_proved,
                a_call_over_the_bound_is_refused_whole,
                a_call_of_the_largest_size_is_served,
                a_reason_over_the_bound_is_refused;
            concurrency:
                fifty_copies_at_once_have_one_effect,
                a_message_run_again_by_many_has_one_effect,
                crossing_batches_have_one_effect_per_message,
                of_two_owners_of_a_log_each_message_has_one_effect,
                of_a_parking_and_an_effect_one_is_committed,
                a_run_again_and_a_skip_agree,
                attempts_of_crossing_calls_are_all_counted,
                a_sweep_beside_copies_forgets_nothing_early;
            cut:
                a_run_cut_anywhere_leaves_one_effect,
                a_batch_cut_anywhere_leaves_one_effect_each,
                a_count_cut_anywhere_counts_at_most_once,
                an_end_cut_anywhere_is_one_after_its_repeat,
                a_giving_back_cut_anywhere_takes_no_other_attempts,
                a_parking_cut_anywhere_is_one_after_its_repeat,
                a_parking_in_a_log_cut_anywhere_is_whole,
                a_mark_cut_anywhere_is_made_by_its_repeat,
                a_report_cut_anywhere_is_there_after_its_repeat,
                a_sweep_cut_anywhere_is_done_by_its_repeat,
                a_read_cut_anywhere_leaves_an_inbox_that_goes_on;
            inspect:
                consumers_are_listed_with_counts,
                pages_of_what_was_had_follow_each_other,
                a_listed_message_is_whole,
                whoever_had_an_id_is_found,
                pages_of_parked_messages_follow_each_other;
            marking:
                what_is_skipped_can_be_taken_back,
                what_is_dropped_stays_known,
                only_what_is_parked_is_marked,
                a_word_is_audited,
                a_mismatch_is_audited,
                the_audit_is_chosen_by_consumer,
                a_mark_shows_in_the_lists;
            parking:
                a_parked_message_keeps_all_that_was_delivered,
                a_copy_of_a_parked_message_is_not_run,
                a_parking_repeated_is_one,
                what_has_come_to_its_end_is_not_parked,
                a_parked_message_is_run_again_once_under_its_own_id,
                a_run_again_that_fails_waits_for_an_operator_again,
                what_was_left_out_meanwhile_is_not_run,
                the_oldest_is_due_first,
                consumers_and_sources_share_no_parked_messages;
            positions:
                a_position_moves_with_the_effect_and_only_forward,
                a_position_stays_where_its_effect_failed,
                logs_and_consumers_share_no_positions,
                a_large_offset_is_kept,
                a_batch_that_another_owner_has_begun_is_done_from_there,
                a_batch_that_fails_moves_nothing,
                a_batch_out_of_order_or_of_two_logs_is_refused,
                a_message_is_parked_and_its_position_moved_at_once,
                a_parked_message_of_a_log_is_run_again_by_its_id,
                what_positions_cannot_keep_is_refused;
            receiving:
                a_message_has_one_effect_and_a_copy_gets_what_was_recorded,
                two_consumers_of_one_message_have_it_each,
                sources_share_no_ids,
                names_are_compared_byte_by_byte,
                other_content_under_one_id_is_told_and_not_run,
                a_message_whose_effect_failed_is_run_when_it_comes_again,
                answers_come_back_as_they_were,
                an_answer_past_its_bound_leaves_nothing,
                a_tombstone_is_a_message,
                events_leave_once_with_the_effect_and_copies_are_told,
                a_run_that_publishes_is_hinted_at;
            reopening:
                what_was_had_is_known_to_the_next_process;
            sweeping:
                what_is_remembered_stays_bounded_over_thirty_days,
                a_copy_is_known_until_the_end_of_its_memory,
                every_consumer_has_a_memory_of_its_own,
                what_was_ever_parked_is_known_for_ever,
                attempts_of_what_never_came_again_are_forgotten,
                attempts_of_what_was_handled_are_forgotten,
                steps_are_bounded,
                positions_are_never_forgotten;
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::conformance::stamp::tests::assert_stamped;

    #[test]
    fn every_promise_is_stamped() {
        let modules = [
            ("attempts", include_str!("attempts.rs")),
            ("batching", include_str!("batching.rs")),
            ("bounds", include_str!("bounds.rs")),
            ("concurrency", include_str!("concurrency.rs")),
            ("cut", include_str!("cut.rs")),
            ("inspect", include_str!("inspect.rs")),
            ("marking", include_str!("marking.rs")),
            ("parking", include_str!("parking.rs")),
            ("positions", include_str!("positions.rs")),
            ("receiving", include_str!("receiving.rs")),
            ("reopening", include_str!("reopening.rs")),
            ("sweeping", include_str!("sweeping.rs")),
        ];
        assert_stamped(include_str!("stamp.rs"), &modules, 88);
    }
}
