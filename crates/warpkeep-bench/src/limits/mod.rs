//! What the machine gives at most when nobody stands between: its disk and its memory by themselves.

pub(crate) mod bare;
pub(crate) mod disk;
pub(crate) mod memory;
