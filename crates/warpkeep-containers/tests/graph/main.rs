//! The graph on the simulator and on the CPU.

#![cfg(not(no_simulator))]

/// Tests that also run on a GPU: functions of a device.
macro_rules! tests_of {
    ($($name:ident),+ $(,)?) => {
        mod on_the_simulator {
            $(
                #[test]
                fn $name() {
                    super::$name(&crate::device());
                }
            )+
        }
    };
}

mod algorithms;
mod algorithms_random;
mod batches;
mod container;
mod files;
mod generators;
mod growth;
mod incremental;
mod incremental_random;
mod lengths;
mod limits;
mod lookups;
mod losses;
mod model;
mod properties;
mod readers;
mod samples;
mod samples_on;
mod samples_on_random;
mod samples_random;
mod shapes;
mod snapshots;
mod snapshots_random;
mod threads;
mod traps;

fn device() -> warpkeep_device::Device {
    warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap()
}

/// Fewer schedules than of an undirected graph, which does what a directed one does, and more.
mod directed {
    use super::container::Directed;

    #[test]
    fn batches_agree_with_the_model() {
        warpkeep_suites::device::fast::<Directed>();
    }

    #[test]
    fn schedules_agree_with_the_model() {
        assert_eq!(warpkeep_suites::device::wrong_schedule::<Directed>(24), None);
    }

    #[test]
    fn a_lost_device_is_an_error_of_every_later_call() {
        warpkeep_suites::device::losses::<Directed>();
    }
}

mod undirected {
    use super::container::Undirected;

    warpkeep_suites::simulator_suite!(Undirected);
}
