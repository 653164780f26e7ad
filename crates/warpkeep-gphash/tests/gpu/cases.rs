//! The tests that run on the simulator and on a GPU.

/// A test for each case, run by a function that brings the device.
macro_rules! all_cases {
    ($on:path) => {
        all_cases! {
            $on;
            oracle:
                batches_agree_with_a_map, every_geometry_agrees_with_a_map,
                gets_in_device_memory_are_answered_in_device_memory, duplicate_keys_get_equal_answers,
                duplicate_keys_fall_back_to_the_cpu;
            variable:
                keys_and_values_of_any_length_are_found, keys_are_found_in_reused_blocks,
                keys_of_any_length_are_found_by_a_cuckoo_index;
            agree:
                cpu_and_device_alternate_on_a_growing_table,
                cpu_and_device_alternate_on_a_shrinking_table, cpu_and_device_alternate_on_special_keys;
            adversary:
                colliding_keys_are_refused_and_others_stay_intact,
                a_batch_larger_than_the_table_is_answered_in_full, empty_and_small_batches_work,
                operations_without_effect_allocate_nothing, a_dropped_stage_leaves_nothing_behind,
                a_full_heap_refuses_batches_and_stays_intact, invalid_arguments_are_refused
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
