//! Access to a store for tests, behind the feature `testing`.

use warpkeep_device::Device;
use warpkeep_image::{HeapOptions, Persist};
use warpkeep_record::{Budget, Progress};

use crate::store::device_options;
use crate::{CheckpointOptions, ImagePlace, LogPlace, Result, Store, StoreOptions, open};

impl<P: Persist> Store<P> {
    /// A store over any place, for tests that bring their own memory and disk: without the background thread, so
    /// that the same calls always have the same effects.
    pub fn open_in(place: &impl ImagePlace<P>, log: Option<LogPlace>, heap: HeapOptions) -> Result<Store<P>> {
        let (keeper, report) = open(place, log, heap, &())?;
        Ok(Store::without_threads(keeper, report))
    }

    /// Moves all tables to a device, as [`Store::open_on`] does.
    pub fn give_to(&self, device: &Device) -> Result<()> {
        self.keeper.items().move_to_device(device, device_options(&StoreOptions::default())?)
    }

    /// The work of the background threads, once: a slice of this many items for each table, and a checkpoint if the
    /// log is too long for these options; returns whether there is more to do.
    pub fn maintain(&self, items: u64, checkpoints: &CheckpointOptions) -> Result<bool> {
        self.keeper.check_process()?;
        let mut working = false;
        for named in self.keeper.items().list() {
            working |= named.maintain(Budget::items(items))? == Progress::Working;
        }
        self.keeper.keep_reserve(checkpoints);
        if self.keeper.wants_checkpoint(checkpoints) {
            self.keeper.checkpoint()?;
        }
        Ok(working)
    }
}
