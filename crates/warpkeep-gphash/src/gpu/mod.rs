//! Tables worked by a device: batches run as kernels over the very bytes that the CPU works on.
//!
//! The image is registered with the device, and a warp looks at all slots of a key at once. A batch is written in two steps, as on
//! the CPU: staging decides every operation and writes what nobody can reach yet, publishing stores the words that make it
//! count; the log comes between. Records come from the heap, which the host keeps.
//!
//! A table has one writing engine at a time. Whoever writes to a table that a device works, on the CPU too, has its
//! [`Turn`]; and nobody moves items while a kernel reads.

mod batch;
pub(crate) mod change_feed;
mod columns;
mod deals;
mod engine;
mod homes;
mod hosts;
mod image;
mod kernels;
mod mirror;
pub mod paper;
mod params;
mod pinned_rows;
mod profile;
mod program;
#[cfg(test)]
#[cfg(not(no_simulator))]
mod race;
mod reading;
mod regions;
mod rows;
mod settle;
mod stage;
mod staying;
mod steps;
mod straight;
mod upkeep;
mod values;
mod variable;

pub use batch::{BatchRows, DeviceBatch};
pub use engine::{DeviceEngine, Turn};
pub use hosts::{Gathered, HostGets, HostWrites, PartAnswers, SentPart};
pub use image::DeviceImage;
#[doc(hidden)]
pub use mirror::MirrorReport;
pub use pinned_rows::PinnedRows;
pub use profile::{DeviceProfile, PublishBy};
pub use program::programs_for;
pub use reading::{GetRows, Reading};
pub use rows::{HostRows, RowOps, WriteRows};
pub use stage::DeviceStage;
pub use staying::Moving;
pub use steps::{StepTime, Watch};
#[doc(hidden)]
pub use straight::HostStep;
pub use straight::{Decided, StraightRows, StraightStage, Wrote};
pub use values::{ValueRoom, ValuesReport, ValuesStats};

#[cfg(test)]
mod tests;
