//! How much of what can be explored is explored.

/// Set to `full`, everything is explored that has ever been; otherwise a seeded part of it that has every kind of crash in it and takes a
/// fraction of the time.
pub const EXTENT: &str = "WARPKEEP_EXPLORE";

/// Whether the environment asks for all of it: see [`EXTENT`].
pub fn explores_fully() -> bool {
    std::env::var_os(EXTENT).is_some_and(|extent| extent == "full")
}
