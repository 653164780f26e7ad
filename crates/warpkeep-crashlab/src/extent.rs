//! How much of the crash space is explored.

/// Set to `full`, it makes tests explore everything; otherwise they explore a seeded part that includes every kind
/// of crash and takes a fraction of the time.
pub const EXTENT: &str = "WARPKEEP_EXPLORE";

/// Whether the environment requests full exploration: see [`EXTENT`].
pub fn explores_fully() -> bool {
    std::env::var_os(EXTENT).is_some_and(|extent| extent == "full")
}
