//! memcached's text protocol.

mod encode;
mod execute;
mod line;
mod meta;
mod parse;

pub(crate) use encode::encode;
pub(crate) use execute::execute;
pub(crate) use parse::parse;

/// The longest key of memcached's.
pub(crate) const MAX_KEY: usize = 250;
