//! Tables worked by a device: batches run as kernels over the very bytes that the CPU works on.
//!
//! The image is registered with the device, and a warp looks at all slots of a key at once. A batch is written in two steps, as on
//! the CPU: staging decides every operation and writes what nobody can reach yet, publishing stores the words that make it
//! count; the log comes between. Records come from the heap, which the host keeps.
//!
//! A table has one writing engine at a time. Whoever writes to a table that a device works, on the CPU too, has its
//! [`Turn`]; and nobody moves items while a kernel reads.

mod alone;
mod batch;
pub(crate) mod cache;
mod columns;
mod deals;
mod engine;
#[cfg(test)]
mod facts;
mod homes;
mod hosts;
mod image;
mod left_out;
mod mirror;
mod order;
mod params;
mod pinned_rows;
mod program;
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
pub use cache::{CacheError, CachePolicy, CacheReport, CacheStats};
pub use engine::{DeviceEngine, Turn};
pub use hosts::{Gathered, HostGets, HostWrites, PartAnswers, SentPart};
pub use image::DeviceImage;
#[doc(hidden)]
pub use left_out::is_left_out;
pub use mirror::MirrorReport;
pub use order::ValuesBy;
pub use pinned_rows::PinnedRows;
pub use program::program_for;
pub use reading::{GetRows, Reading};
pub use rows::{HostRows, RowOps, WriteRows};
pub use stage::DeviceStage;
pub use staying::Moving;
pub use steps::{StepTime, Watch};
#[doc(hidden)]
pub use straight::HostStep;
pub use straight::{Decided, StraightRows, StraightStage, WordsBy, Wrote};
pub use values::{ValueRoom, ValuesReport, ValuesStats};

#[cfg(test)]
mod tests;
