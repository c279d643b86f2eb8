//! The macro that gives a source one named test per promise.

/// Stamps every promise of a source into the module that names it, as one test each.
///
/// The argument is a type that implements
/// [`SourceUnderTest`](crate::conformance::source::SourceUnderTest) and is visible where the macro stands. The crate
/// needs `tokio` with `macros` and `rt-multi-thread` among its dev-dependencies.
#[macro_export]
macro_rules! source_conformance {
    ($source:ident) => {
        $crate::suite_promises! { $source source
            delivering:
                capabilities_are_stated,
                what_was_sent_is_delivered_whole,
                nothing_comes_of_nothing,
                a_receive_is_bounded,
                copies_carry_one_name,
                a_receive_cut_anywhere_loses_nothing,
                a_broken_connection_fails_nobody_for_good;
            logs:
                positions_are_as_declared,
                a_log_comes_in_order,
                nothing_comes_before_a_log_is_begun,
                a_log_begins_where_it_is_told,
                a_gap_is_not_passed,
                what_is_wanted_again_comes_first,
                what_was_revoked_cannot_be_acked;
            settling:
                what_was_acked_does_not_come_again,
                the_order_of_acks_is_nothing_to_it,
                what_was_not_acked_comes_again,
                a_dropped_source_acknowledges_nothing,
                what_was_not_received_is_not_lost,
                what_is_wanted_again_comes_again,
                a_foreign_receipt_settles_nothing,
                members_share_what_there_is;
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::conformance::stamp::tests::assert_stamped;

    #[test]
    fn every_promise_is_stamped() {
        let modules = [
            ("delivering", include_str!("delivering.rs")),
            ("logs", include_str!("logs.rs")),
            ("settling", include_str!("settling.rs")),
        ];
        assert_stamped(include_str!("stamp.rs"), &modules, 22);
    }
}
