//! The command line of Warpkeep.

fn main() {}
