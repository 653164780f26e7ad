//! The graph on a GPU: the same batches as on the simulator.

use warpkeep_suites::device::on_gpu;

macro_rules! tests_of {
    ($($name:ident),+ $(,)?) => {
        mod on_a_gpu {
            $(
                #[test]
                fn $name() {
                    crate::on_gpu(|device| super::$name(device));
                }
            )+
        }
    };
}

#[path = "graph/algorithms.rs"]
mod algorithms;
#[path = "graph/batches.rs"]
mod batches;
#[path = "graph/container.rs"]
mod container;
#[path = "graph/growth.rs"]
mod growth;
#[path = "graph/incremental.rs"]
mod incremental;
#[path = "graph/lengths.rs"]
mod lengths;
#[path = "graph/lookups.rs"]
mod lookups;
#[path = "graph/model.rs"]
mod model;
#[path = "graph/samples.rs"]
mod samples;
#[path = "graph/samples_on.rs"]
mod samples_on;
#[path = "graph/shapes.rs"]
mod shapes;
#[path = "graph/snapshots.rs"]
mod snapshots;
#[path = "graph/threads.rs"]
mod threads;
#[path = "graph/traps.rs"]
mod traps;

mod directed {
    use super::container::Directed;

    warpkeep_suites::cuda_suite!(Directed);
}

mod undirected {
    use super::container::Undirected;

    warpkeep_suites::cuda_suite!(Undirected);
}
