//! What every store must do, whatever keeps the rows.
//!
//! `conformance!` makes a test of each case, for a store that the caller says how to make, to open and to tamper with.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod cases {
    pub mod experiments;
    pub mod many;
    pub mod sandboxes;
    pub mod snapshots;
    pub mod team;
}
pub mod fixtures;

use whatif_store::Store;

/// Where the records of one test lie.
#[derive(Clone, Debug)]
pub struct Ground {
    /// All that is needed to open them, also for another process.
    pub address: String,
    pub open: fn(&str) -> Box<dyn Store>,
    /// Runs SQL behind the store's back.
    pub tamper: fn(&str, &str),
}

impl Ground {
    #[must_use]
    pub fn store(&self) -> Box<dyn Store> {
        (self.open)(&self.address)
    }
}

/// `conformance!(new, open, tamper)`: `new(test)` gives something that has an `address()` and takes the records away when it is
/// dropped, `open(address)` a store, `tamper(address, sql)` changes rows.
#[macro_export]
macro_rules! conformance {
    ($new:path, $open:path, $tamper:path) => {
        $crate::conformance! { @cases $new, $open, $tamper;
            sandboxes::a_row_comes_back_as_it_was_written_also_to_another_connection,
            sandboxes::names_are_unique_and_free_again_after_deletion,
            sandboxes::an_idempotency_key_gives_the_same_sandbox_twice,
            sandboxes::a_writer_that_saw_an_older_version_is_refused,
            sandboxes::sandboxes_are_found_by_name_or_by_a_prefix_that_fits_one,
            sandboxes::the_newest_is_listed_first,
            sandboxes::pages_neither_repeat_nor_miss,
            sandboxes::a_filter_lets_through_what_fits,
            sandboxes::states_change_only_as_the_table_says,
            experiments::an_experiment_comes_back_with_all_of_its_attempts,
            experiments::an_experiment_that_another_one_changed_is_not_overwritten,
            experiments::there_are_as_many_records_as_planned_attempts,
            snapshots::a_snapshot_and_the_step_of_its_sandbox_are_one,
            snapshots::labels_belong_to_sandboxes_and_go_with_them,
            snapshots::a_line_of_descent_closes_where_a_snapshot_is_removed,
            snapshots::nothing_starts_from_what_is_gone,
            snapshots::needed_layers_are_those_that_any_record_names,
            team::a_lease_is_held_by_one_and_numbers_grow,
            team::whoever_lost_a_lease_writes_nothing,
            team::reserved_paths_keep_others_out_above_and_below,
            team::events_are_numbered_and_can_be_resumed,
            team::what_waits_in_a_spool_is_recorded_once,
            team::the_audit_log_tells_what_was_changed,
            team::what_is_asked_for_twice_is_done_once,
            many::eight_threads_of_two_processes_lose_nothing,
            many::a_killed_writer_leaves_what_was_or_what_is_to_be,
        }

        /// Only does something for a test that has started it as a process of its own.
        #[test]
        fn as_another_process() {
            $crate::cases::many::as_another_process($open, $tamper);
        }
    };
    (@cases $new:path, $open:path, $tamper:path; $($group:ident::$case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                let place = $new(stringify!($case));
                $crate::cases::$group::$case(&$crate::Ground { address: place.address(), open: $open, tamper: $tamper });
            }
        )*
    };
}
