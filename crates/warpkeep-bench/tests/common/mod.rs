//! The shared parts of the benchmarks' tests. A test includes the parts it needs.

mod impatient;
mod refusal;
mod scene;

pub(crate) use impatient::Impatient;
pub(crate) use refusal::refusal;
pub(crate) use scene::{assert_series, directory, is_empty};
