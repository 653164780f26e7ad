//! What the tests of the benchmarks share. A test that needs a part of it takes that part.

mod impatient;
mod refusal;
mod scene;

pub(crate) use impatient::Impatient;
pub(crate) use refusal::refusal;
pub(crate) use scene::{assert_series, directory, is_empty};
