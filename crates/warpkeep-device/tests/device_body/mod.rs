//! What every device must do: one body of tests, run on the simulator and on a GPU.

pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod programs;
pub(crate) mod runtime;

/// Makes a test of every case of the body, on the devices that `$on` hands to it.
#[macro_export]
macro_rules! device_cases {
    ($on:path; $($group:ident { $($case:ident),* $(,)? })*) => {
        $(mod $group {
            $(#[test]
            fn $case() {
                $on($crate::device_body::$group::$case);
            })*
        })*
    };
}

/// The body's cases, for [`device_cases`].
#[macro_export]
macro_rules! all_device_cases {
    ($on:path) => {
        $crate::device_cases! {
            $on;
            memory {
                what_is_written_is_read,
                parts_are_written_and_read_at_their_offsets,
                filling_and_copying,
                views_count_elements,
                ranges_outside_a_buffer_are_refused,
                an_empty_buffer_is_a_buffer,
                a_budget_holds_and_is_given_back,
                too_much_memory_is_an_error,
                a_buffer_grows_where_it_lies,
            }
            order {
                work_in_a_stream_is_in_order,
                events_tell_the_time_and_the_order,
                handles_of_another_device_are_refused,
                threads_share_a_device,
            }
            host {
                pinned_memory_is_reached_by_kernels,
                copies_behind_the_program,
                an_image_on_tmpfs_is_written_by_kernels,
                registered_in_chunks_it_is_still_one_range,
                what_cannot_be_registered_is_refused,
            }
            runtime {
                hashes_are_those_of_the_host,
                appended_items_are_in_their_lists_once,
                a_partition_sorts_and_its_items_are_visited_once,
                lines_are_read_together,
                duplicates_of_blocks_and_batches_are_found,
                a_launch_has_all_the_shared_memory_of_the_device,
            }
            launch {
                a_table_of_kernels_answers,
                launches_that_cannot_be_are_refused,
                a_program_is_loaded_twice,
                a_kernel_outlives_its_module_handle,
                a_set_whose_sides_disagree_is_refused,
            }
        }
    };
}
