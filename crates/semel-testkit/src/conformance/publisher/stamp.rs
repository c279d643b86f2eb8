//! The macro that gives a publisher one named test per promise.

/// Stamps every promise of a publisher into the module that names it, as one test each.
///
/// The argument is a type that implements
/// [`PublisherUnderTest`](crate::conformance::publisher::PublisherUnderTest) and is visible where the macro stands. The crate
/// needs `tokio` with `macros` and `rt-multi-thread` among its dev-dependencies.
#[macro_export]
macro_rules! publisher_conformance {
    ($publisher:ident) => {
        $crate::suite_promises! { $publisher publisher
            sending:
                capabilities_are_stated,
                a_batch_of_nothing_is_answered,
                what_is_confirmed_is_there_whole,
                a_tombstone_arrives,
                lanes_keep_their_order,
                batches_at_once_are_confirmed,
                a_copy_carries_the_same_name,
                payloads_are_bounded_as_stated,
                a_publish_cut_anywhere_leaves_a_publisher_that_goes_on;
            trouble:
                a_far_end_that_is_away_confirms_nothing,
                a_far_end_that_stays_away_is_told_each_time,
                a_lost_answer_is_no_refusal,
                nothing_is_confirmed_behind_what_is_not,
                a_mute_far_end_is_unknown_in_time,
                an_overloaded_far_end_is_the_destinations_fault,
                nothing_comes_later_than_stated;
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::conformance::stamp::tests::assert_stamped;

    #[test]
    fn every_promise_is_stamped() {
        let modules =
            [("sending", include_str!("sending.rs")), ("trouble", include_str!("trouble.rs"))];
        assert_stamped(include_str!("stamp.rs"), &modules, 16);
    }
}
