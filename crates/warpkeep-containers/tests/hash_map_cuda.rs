//! The hash map on a GPU: the same batches as on the simulator.

#[path = "hash_map/calls.rs"]
mod calls;
#[path = "hash_map/container.rs"]
mod container;
#[path = "hash_map/crowded.rs"]
mod crowded;
#[path = "hash_map/keys.rs"]
mod keys;
#[path = "hash_map/model.rs"]
mod model;
#[path = "hash_map/set.rs"]
mod set;

mod pairs {
    use super::container::Pairs;

    warpkeep_suites::cuda_suite!(Pairs);
}

mod in_few_buckets {
    use super::crowded::Crowded;

    warpkeep_suites::cuda_suite!(Crowded);
}

mod keys_alone {
    use super::set::{CrowdedKeys, Keys};

    mod any {
        use super::Keys;

        warpkeep_suites::cuda_suite!(Keys);
    }

    mod in_few_buckets {
        use super::CrowdedKeys;

        warpkeep_suites::cuda_suite!(CrowdedKeys);
    }
}

mod calls_of_kernels {
    use super::calls::Calls;

    warpkeep_suites::cuda_suite!(Calls);
}
