//! Asking for a mirror.

use std::sync::atomic::Ordering;
use std::time::Instant;

use warpkeep_image::Persist;

use super::MirrorReport;
use crate::bucket::Body;
use crate::gpu::engine::{DeviceEngine, check_fixed};
use crate::{Table, TableError};

impl<P: Persist> DeviceEngine<P> {
    /// Makes a mirror of the table: the record of every key, in device memory. Batches of gets use it from then on, and it is kept
    /// up with what is written and made larger as the table grows. Where the device's memory budget does not allow it there is none,
    /// as the report says, and kernels read the image.
    ///
    /// Where keys are longer than their hashes they are kept there, too, unless the budget does not allow that, or somebody
    /// [says otherwise](DeviceEngine::keep_keys); without them such keys are compared with those in the image.
    ///
    /// Tables whose values are in slots have no use for one. Batches that write wait meanwhile.
    pub fn load_mirror(&self, table: &Table<P>) -> Result<MirrorReport, TableError> {
        check_fixed(table)?;
        let begun = Instant::now();
        let _turn = self.turn();
        let mut state = self.mirror.state();
        state.wanted = table.shape.body == Body::Packed;
        if state.wanted {
            state.reflect(self, table, 0)?;
        }
        let report = MirrorReport { items: 0, bytes: 0, key_bytes: 0, took: begun.elapsed() };
        Ok(state.index.as_ref().map_or(report, |index| MirrorReport {
            items: index.used.load(Ordering::Relaxed),
            bytes: index.bytes(),
            key_bytes: index.key_bytes(),
            ..report
        }))
    }

    /// Whether mirrors that are [made](DeviceEngine::load_mirror) from now on keep keys that are longer than their hashes, as they do if nothing
    /// is said: for measurements, and for whoever would rather have that memory for values.
    pub fn keep_keys(&self, keep: bool) {
        self.mirror.state().without_keys = !keep;
    }

    /// Gives the mirror's memory back.
    pub fn drop_mirror(&self, table: &Table<P>) {
        let _turn = self.turn();
        let mut state = self.mirror.state();
        state.wanted = false;
        state.replace(None, &table.changes);
    }
}
