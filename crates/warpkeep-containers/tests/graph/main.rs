//! The graph on the simulator and on the CPU.

#![cfg(not(no_simulator))]

mod algorithms;
mod container;
mod files;
mod limits;
mod model;
mod properties;
mod readers;
mod samples;
mod shapes;
mod traps;

/// In every schedule an undirected graph does what a directed one does, and more.
#[test]
fn batches_on_a_directed_graph_agree_with_the_model() {
    warpkeep_suites::device::fast::<container::Directed>();
}

mod undirected {
    use super::container::Undirected;

    warpkeep_suites::simulator_suite!(Undirected);
}
