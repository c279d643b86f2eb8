//! The macro that gives an outbox one named test per promise.

/// Stamps every promise of an outbox into the module that names it, as one test each: `leading::…`,
/// `passes::…`.
///
/// The argument is a type that implements
/// [`OutboxUnderTest`](crate::conformance::outbox::OutboxUnderTest) and is visible where the macro
/// stands. The crate needs `tokio` with `macros` and `rt-multi-thread` among its dev-dependencies.
#[macro_export]
macro_rules! outbox_conformance {
    ($outbox:ident) => {
        $crate::suite_promises! { $outbox outbox
            bounds:
                an_event_over_a_bound_is_not_appended,
                a_settlement_over_the_bound_is_refused,
                a_settlement_of_the_largest_size_is_stored,
                a_leader_over_the_bound_is_refused,
                too_many_marks_are_refused;
            concurrency:
                one_of_8_leads,
                a_settlement_and_a_take_over_agree,
                a_renewal_and_a_take_over_do_not_both_win,
                copies_of_one_settlement_are_one,
                nothing_is_lost_or_reordered_under_load;
            cut:
                a_lead_cut_anywhere_is_taken_over,
                a_renewal_cut_anywhere_leaves_the_leader,
                a_resignation_cut_anywhere_is_done_by_its_repeat,
                a_read_cut_anywhere_is_repeated,
                a_settlement_cut_anywhere_is_stored_once,
                a_mark_cut_anywhere_is_made_by_its_repeat,
                a_replay_cut_anywhere_is_done_once,
                forgetting_cut_anywhere_is_whole,
                retention_cut_anywhere_leaves_an_outbox_that_goes_on;
            forgetting:
                what_is_led_is_not_forgotten,
                a_destination_is_forgotten_whole,
                a_lapsed_destination_can_be_forgotten,
                a_forgotten_destination_begins_anew,
                a_leader_of_before_settles_nothing,
                forgetting_is_audited;
            hinting:
                a_commit_is_hinted_at,
                all_who_wait_are_hinted_at,
                a_wait_without_a_commit_ends_in_time;
            inspect:
                a_destination_tells_its_leader,
                what_waits_is_counted,
                what_is_parked_is_counted,
                what_is_parked_is_lacked_unless_an_operator_is_awaited,
                events_are_listed_in_order,
                filters_choose_events,
                pages_of_events_follow_each_other,
                a_list_of_events_is_bounded,
                filters_choose_parked_rows,
                the_audit_comes_newest_first;
            leading:
                one_leads_a_destination,
                one_name_does_not_lead_twice,
                destinations_are_led_apart,
                a_live_leader_is_not_taken_over,
                a_lapsed_leader_is_taken_over_with_a_larger_epoch,
                a_renewed_leadership_outlives_its_first_end,
                a_lapsed_leadership_can_be_renewed,
                an_overtaken_leader_does_not_renew,
                a_resigned_leadership_is_free_at_once,
                an_overtaken_leader_does_not_resign,
                a_new_leader_goes_on_where_the_old_one_was,
                a_new_destination_begins_where_it_says,
                where_it_begins_is_asked_once,
                a_take_over_writes_little_however_much_waits;
            marking:
                only_what_waits_for_a_word_is_marked,
                a_head_is_marked_whatever_it_waits_for,
                a_mark_changes_the_state_alone,
                rows_of_others_are_not_marked,
                only_words_of_operators_are_marked,
                a_mark_is_audited,
                a_drop_names_all_that_it_took;
            parking:
                parked_rows_keep_a_copy,
                parked_rows_keep_their_order,
                nothing_is_due_behind_a_failed_head,
                the_next_is_due_when_its_head_was_sent,
                a_lane_is_due_with_what_is_behind_its_head,
                a_run_ends_before_what_waits_for_a_word,
                what_is_due_is_bounded,
                a_long_lane_is_due_in_runs,
                a_head_refused_again_waits_again,
                a_head_that_was_behind_can_fail,
                a_skipped_head_goes_alone,
                a_dropped_head_takes_its_lane_along,
                a_row_is_unparked_once,
                a_row_that_is_gone_stays_gone,
                one_settlement_parks_and_unparks,
                parked_lanes_are_listed;
            passes:
                nothing_committed_is_nothing_to_read,
                a_pass_read_again_holds_the_same,
                what_is_committed_meanwhile_comes_in_a_later_pass,
                a_pass_outlives_its_leader,
                a_pass_outlives_the_process,
                a_second_process_sees_the_same,
                every_destination_has_its_own_cursor,
                nothing_is_written_while_there_is_nothing_to_read;
            reading:
                events_come_in_order,
                steps_of_a_transaction_keep_their_order,
                events_come_back_whole,
                windows_follow_each_other,
                a_window_is_bounded_in_bytes,
                a_window_is_bounded,
                an_overtaken_leader_may_read;
            replaying:
                what_was_had_is_sent_again_in_order,
                a_range_of_time_is_replayed,
                a_replay_repeated_parks_nothing_twice,
                a_replay_leaves_what_still_waits,
                a_replay_waits_behind_what_is_parked,
                a_replay_leaves_out_what_was_left_out,
                what_was_left_out_is_replayed_if_that_is_asked_for,
                what_was_left_out_is_forgotten_with_its_destination,
                a_replay_goes_on_where_it_ended,
                a_replay_goes_to_one_destination,
                a_replay_is_audited;
            retention:
                what_every_destination_has_is_dropped,
                what_is_young_is_kept,
                what_a_destination_lacks_is_kept_and_told,
                what_is_left_of_a_pass_is_kept,
                a_forgotten_destination_holds_nothing_up,
                parked_rows_outlive_their_events,
                what_commits_late_is_kept,
                what_was_dropped_is_not_replayed;
            settling:
                a_settlement_moves_what_is_read,
                an_end_closes_the_pass,
                a_settlement_repeated_changes_nothing_more,
                a_late_settlement_takes_nothing_back,
                an_overtaken_leader_settles_nothing,
                a_lapsed_leader_settles_if_nobody_took_over,
                a_closed_pass_is_not_settled_again,
                a_foreign_epoch_settles_nothing;
            transactions:
                nothing_rolled_back_is_ever_read,
                nothing_of_a_lost_transaction_is_ever_read,
                an_open_transaction_holds_nothing_up,
                what_commits_late_is_in_a_later_pass,
                what_commits_very_late_is_read_once,
                what_commits_after_a_beginning_belongs_to_it,
                transactions_are_open_at_once_as_declared;
        }
    };
}

/// Writes the modules of a suite of promises.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_promises {
    ($under_test:ident $suite:ident $($module:ident: $($promise:ident),+;)+) => {$(
        mod $module {
            use super::$under_test;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    let fresh = $crate::conformance::$suite::fresh::<$under_test>().await;
                    $crate::conformance::$suite::$module::$promise(fresh).await;
                }
            )+
        }
    )+};
}

#[cfg(test)]
mod tests {
    use crate::conformance::stamp::tests::assert_stamped;

    #[test]
    fn every_promise_is_stamped() {
        let modules = [
            ("bounds", include_str!("bounds.rs")),
            ("concurrency", include_str!("concurrency.rs")),
            ("cut", include_str!("cut.rs")),
            ("forgetting", include_str!("forgetting.rs")),
            ("hinting", include_str!("hinting.rs")),
            ("inspect", include_str!("inspect.rs")),
            ("leading", include_str!("leading.rs")),
            ("marking", include_str!("marking.rs")),
            ("parking", include_str!("parking.rs")),
            ("passes", include_str!("passes.rs")),
            ("reading", include_str!("reading.rs")),
            ("replaying", include_str!("replaying.rs")),
            ("retention", include_str!("retention.rs")),
            ("settling", include_str!("settling.rs")),
            ("transactions", include_str!("transactions.rs")),
        ];
        assert_stamped(include_str!("stamp.rs"), &modules, 117);
    }
}
