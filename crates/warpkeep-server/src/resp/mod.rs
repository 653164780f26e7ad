//! RESP2 and RESP3: what Redis clients speak.

mod about;
mod arguments;
mod encode;
mod execute;
mod numbers;
mod parse;
mod words;

pub(crate) use encode::{Tally, bulk, encode, error, null};
pub(crate) use execute::execute;
pub(crate) use parse::parse;
