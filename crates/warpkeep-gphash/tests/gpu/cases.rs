//! What is tested on the simulator and on a GPU alike.

/// A test for each case, with a function that brings the device.
macro_rules! all_cases {
    ($on:path) => {
        all_cases! {
            $on;
            oracle: batches_do_what_a_map_does, every_geometry_does_what_a_map_does,
                rows_in_device_memory_are_answered_there, equal_keys_are_answered_alike,
                keys_that_come_twice_are_left;
            variable: keys_and_values_of_any_length_are_found, keys_are_found_in_blocks_that_were_used;
            agree: growing_tables_go_from_hand_to_hand, shrinking_tables_go_from_hand_to_hand,
                special_keys_go_from_hand_to_hand;
            adversary: colliding_keys_are_told_and_harm_nobody, a_batch_larger_than_the_table_is_answered_in_full,
                small_batches_are_batches, operations_that_change_nothing_use_nothing,
                a_stage_that_is_dropped_leaves_nothing_behind,
                a_full_heap_refuses_and_stays_good, arguments_that_do_not_fit_are_told
        }
    };
    ($on:path; $($module:ident: $($case:ident),*);*) => {
        $($(
            #[test]
            fn $case() {
                $on($module::$case);
            }
        )*)*
    };
}
