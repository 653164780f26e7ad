//! Reproductions: the figures of papers, measured here, with what was published beside them.
//!
//! Other machines give other rates, so what is put side by side is what the text says in numbers: shares, load factors, orders of
//! magnitude. Figures that need what this build does not have are named, with what they need.

pub mod gphash;
pub mod turbohash;
