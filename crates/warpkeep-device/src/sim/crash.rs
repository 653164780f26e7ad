//! What a crash can leave of an image.

use super::log::{RegionId, StoreRecord};

/// What a crash at one step can leave of one range of image memory.
///
/// Some stores are there for certain, since a fence of system scope had them behind it. Others may or may not be: every subset
/// of them is possible, except that of stores to the same bytes the last one wins.
///
/// ```
/// # use warpkeep_device::sim::{CrashImage, StoreRecord};
/// # fn explore(before: &[u8], region: warpkeep_device::sim::RegionId, log: &[StoreRecord]) {
/// let crash = CrashImage::new(before, region, log, 17);
/// for seed in 0..100 {
///     let image = crash.sample(seed);
///     // Recover from the image, and compare.
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CrashImage<'a> {
    before: &'a [u8],
    stores: Vec<(&'a StoreRecord, bool)>,
    open: usize,
}

impl<'a> CrashImage<'a> {
    /// What a crash after `step` can leave of `region`, which held `before` when the log began.
    pub fn new(before: &'a [u8], region: RegionId, log: &'a [StoreRecord], step: u64) -> Self {
        let stores: Vec<_> = log
            .iter()
            .filter(|store| store.region == region && store.issued <= step)
            .map(|store| (store, store.fenced.is_some_and(|fenced| fenced <= step)))
            .collect();
        let open = stores.iter().filter(|(_, certain)| !certain).count();
        Self { before, stores, open }
    }

    /// How many stores may or may not be there.
    pub fn open_stores(&self) -> usize {
        self.open
    }

    /// The image in which the open stores, in the log's order, are there for which `keep` says so. Stores that do not fit
    /// the image are left out.
    pub fn with(&self, mut keep: impl FnMut(usize) -> bool) -> Vec<u8> {
        let mut image = self.before.to_vec();
        let mut open = 0;
        for (store, certain) in &self.stores {
            let there = *certain || {
                open += 1;
                keep(open - 1)
            };
            let start = store.offset as usize;
            if there && let Some(bytes) = image.get_mut(start..start + store.bytes.len()) {
                bytes.copy_from_slice(&store.bytes);
            }
        }
        image
    }

    /// The image with what this run itself had brought there by then: one possible outcome.
    pub fn arrived(&self, step: u64) -> Vec<u8> {
        let arrived: Vec<bool> = self
            .stores
            .iter()
            .filter(|(_, certain)| !certain)
            .map(|(store, _)| store.arrived.is_some_and(|arrived| arrived <= step))
            .collect();
        self.with(|open| arrived[open])
    }

    /// The image with a subset of the open stores that the seed decides; seed 0 keeps none and seed 1 all.
    pub fn sample(&self, seed: u64) -> Vec<u8> {
        match seed {
            0 => self.with(|_| false),
            1 => self.with(|_| true),
            _ => {
                let mut state = seed;
                self.with(|_| {
                    // SplitMix64: small, and good enough to toss coins with.
                    state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                    let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                    (mixed ^ (mixed >> 31)) & 1 == 1
                })
            }
        }
    }

    /// Every image there can be, if the open stores are at most `limit`; else `None`: sample instead.
    pub fn all(&self, limit: u32) -> Option<Vec<Vec<u8>>> {
        if self.open as u32 > limit.min(20) {
            return None;
        }
        Some((0u32..1 << self.open).map(|subset| self.with(|open| subset >> open & 1 == 1)).collect())
    }
}
