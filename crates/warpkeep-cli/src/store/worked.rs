//! What works the tables of a store that a command opens.

use clap::Args;
use warpkeep::DeviceChoice;

use super::StoreAt;

/// What works the tables.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Worked {
    /// What works tables of fixed lengths: cpu, cuda:0 and so on, or sim, a slow simulator of a GPU. Batches too small for
    /// a GPU, and other tables, are always done by the CPU. `warpkeep info` lists what is here.
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(crate) device: DeviceChoice,
}

impl StoreAt {
    /// The same store, worked like this.
    pub(crate) fn on(&self, worked: Worked) -> StoreAt {
        StoreAt { device: worked.device, ..self.clone() }
    }
}
