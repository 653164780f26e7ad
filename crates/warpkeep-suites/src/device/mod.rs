//! Tests that every container whose operations run as kernels has to pass.
//!
//! A container implements [`Container`] and names itself in two test programs:
//!
//! ```ignore
//! // tests/simulator.rs
//! warpkeep_suites::simulator_suite!(CounterMap);
//! // tests/cuda.rs
//! warpkeep_suites::cuda_suite!(CounterMap);
//! ```
//!
//! The first runs batches beside a [model](Container::Model) as fast as the simulator goes, then in many seeded schedules with delayed stores
//! and stale loads, and loses the device at many steps. The second compiles the kernels, which needs no GPU, and
//! runs the same batches on a GPU, or says `SKIPPED`.
//!
//! Further parts for a container's tests: [`Gate`] proves that the absence of each fault point is noticed,
//! [`Recording`] explores the states that crashes could leave of memory that kernels write to.

mod compiled;
mod container;
mod crash;
mod dice;
mod gate;
mod lost;
mod oracle;

pub use compiled::{compile, compile_programs};
pub use container::Container;
pub use crash::Recording;
pub use dice::Dice;
pub use gate::{Attempt, Gate};
pub use lost::losses;
pub use oracle::{Load, compare_with_model, fast, on_gpu, schedules, wrong_schedule};

/// Writes a line of counts where CI sees it.
pub fn report(line: &str) {
    use std::io::Write as _;
    writeln!(std::io::stdout().lock(), "{line}").expect("standard output");
}

/// The tests of a [`Container`] on the simulator. Nothing, where there is none.
#[macro_export]
macro_rules! simulator_suite {
    ($container:ty) => {
        #[cfg(not(no_simulator))]
        mod simulator_suite {
            use super::*;

            #[test]
            fn batches_agree_with_the_model() {
                $crate::device::fast::<$container>();
            }

            #[test]
            fn every_schedule_agrees_with_the_model() {
                $crate::device::schedules::<$container>();
            }

            #[test]
            fn a_lost_device_is_an_error_of_every_later_call() {
                $crate::device::losses::<$container>();
            }
        }
    };
}

/// The tests of a [`Container`] on the first GPU. They say `SKIPPED` where there is none. Fewer operations a batch may be given where the model looks at
/// every order of operations that ran at the same time.
#[macro_export]
macro_rules! cuda_suite {
    ($container:ty) => {
        $crate::cuda_suite!($container, batches: 20, operations: 50_000);
    };
    ($container:ty, batches: $batches:expr, operations: $operations:expr) => {
        mod cuda_suite {
            use super::*;

            #[test]
            fn kernels_compile_for_a_gpu_and_do_not_spill() {
                $crate::device::compile::<$container>();
            }

            #[test]
            fn batches_agree_with_the_model() {
                $crate::device::on_gpu(|device| {
                    let load =
                        $crate::device::Load { seed: 1, batches: $batches, operations: $operations };
                    $crate::device::compare_with_model::<$container>(device, load)
                        .unwrap_or_else(|wrong| panic!("{wrong}"));
                });
            }
        }
    };
}
