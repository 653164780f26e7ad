//! The cuckoo index on a GPU: the same batches as on the simulator.

#[path = "cuckoo_index/calls.rs"]
mod calls;
#[path = "cuckoo_index/container.rs"]
mod container;
#[path = "cuckoo_index/model.rs"]
mod model;

mod entries {
    use super::container::Entries;

    warpkeep_suites::cuda_suite!(Entries);
}

mod in_few_buckets {
    use super::container::Crowded;

    warpkeep_suites::cuda_suite!(Crowded);
}

mod calls_of_kernels {
    use super::calls::Calls;

    warpkeep_suites::cuda_suite!(Calls);
}
