//! The ordered map on a GPU: the same batches as on the simulator.

#[path = "ordered_map/container.rs"]
mod container;
#[path = "ordered_map/model.rs"]
mod model;

mod wide {
    use super::container::Wide;

    warpkeep_suites::cuda_suite!(Wide);
}

mod narrow {
    use super::container::Narrow;

    warpkeep_suites::cuda_suite!(Narrow);
}

mod widest {
    use super::container::Widest;

    warpkeep_suites::cuda_suite!(Widest);
}
