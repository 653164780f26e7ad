//! What works the tables of a store that a command opens.

use clap::Args;
use warpkeep::{DeviceChoice, DeviceIndex};

use super::StoreAt;

/// What works the tables.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Worked {
    /// What works tables of fixed lengths: cpu, cuda:0 and so on, or sim, a slow simulator of a GPU. Batches too small for
    /// a GPU, and other tables, are always done by the CPU. `warpkeep info` lists what is here.
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(crate) device: DeviceChoice,
    /// Keep copies of this share of a table's buckets, from 0 to 1, in the device's memory, those asked for most, instead of
    /// where the record of every key lies.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) cache_share: Option<f64>,
}

/// A share.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("give a number from 0 to 1".to_owned()),
    }
}

impl Worked {
    /// What the device keeps of the indexes.
    fn index(self) -> DeviceIndex {
        self.cache_share.map_or(DeviceIndex::Mirrored, DeviceIndex::Cached)
    }
}

impl StoreAt {
    /// The same store, worked like this.
    pub(crate) fn on(&self, worked: Worked) -> StoreAt {
        StoreAt { device: worked.device, device_index: worked.index(), ..self.clone() }
    }
}
