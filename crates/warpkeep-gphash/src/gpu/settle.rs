//! After a device that was lost while it moved items.

use std::sync::atomic::Ordering;

use warpkeep_device::fault_point;
use warpkeep_image::Persist;

use crate::Table;
use crate::levels::Levels;
use crate::slot::{EMPTY, INSERT};

impl<P: Persist> Table<P> {
    /// Finishes what a kernel that moved items left: slots that were claimed are empty again, and of an item in two places the
    /// old one goes. What opening a table does, but in a table that goes on: otherwise a key that is changed here and moved once more
    /// would have its former value beside it. Nobody writes meanwhile.
    pub(super) fn settle_moves(&self, levels: &Levels) {
        if fault_point!("recover.finish_moves") {
            return;
        }
        let image = self.image();
        let outgoing: Vec<u64> = levels.outgoing().map(|run| run.offset).collect();
        let overflows: Vec<u64> = levels.overflows().map(|run| run.offset).collect();
        let mut in_overflow = 0;
        for run in self.runs(levels) {
            let is_leaving = outgoing.contains(&run.offset);
            let is_overflow = overflows.contains(&run.offset);
            for bucket in run.iter(&self.shape) {
                for slot in 0..self.shape.slots() {
                    let state = bucket.state(slot);
                    if state == EMPTY {
                        continue;
                    }
                    if state == INSERT || is_leaving && self.is_elsewhere(levels, bucket, slot, state) {
                        let at = bucket.slot(&self.shape, slot).state;
                        image.store(at, EMPTY);
                        image.flush("gphash.settle", at, 8);
                    } else {
                        in_overflow += u64::from(is_overflow);
                    }
                }
            }
        }
        image.fence("gphash.settle");
        self.in_overflow.store(in_overflow, Ordering::Release);
    }
}
