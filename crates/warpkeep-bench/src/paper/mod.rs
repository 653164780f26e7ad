//! Reproductions: the figures of papers, measured here, beside the published ones.
//!
//! Other machines give other rates, so the comparison uses what the text gives in numbers: shares, load factors,
//! orders of magnitude. Figures that this build cannot measure are named, with their requirements.

pub mod btree;
pub mod gphash;
pub mod graph;
pub mod megakv;
pub mod slabhash;
pub mod turbohash;

/// What was asked for, each once, in its order.
pub(crate) fn each_once<T: Copy + PartialEq>(asked: &[T]) -> Vec<T> {
    let mut list = Vec::new();
    for one in asked {
        if !list.contains(one) {
            list.push(*one);
        }
    }
    list
}
