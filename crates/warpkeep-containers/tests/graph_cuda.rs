//! The graph on a GPU: the same batches as on the simulator.

#[path = "graph/container.rs"]
mod container;
#[path = "graph/model.rs"]
mod model;

mod directed {
    use super::container::Directed;

    warpkeep_suites::cuda_suite!(Directed);
}

mod undirected {
    use super::container::Undirected;

    warpkeep_suites::cuda_suite!(Undirected);
}
