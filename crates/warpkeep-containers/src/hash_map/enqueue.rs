//! Batches in device memory that are not waited for.

use warpkeep_device::{DevicePtr, Event, Grid, Result, Stream};

use super::columns::Staged;
use super::device::{DeviceMap, batch_of};
use super::kernels::{Batch, PENDING, PENDING_NEXT, THREADS};
use super::table::Table;
use super::width::{MapKey, MapValue};

/// How often keys are displaced for those that have no slot. The host cannot see whether once more would help.
const DISPLACEMENTS: usize = 3;

impl<K: MapKey, V: MapValue> DeviceMap<K, V> {
    /// Puts a batch into the stream, and gives an event behind it. The map does not grow.
    ///
    /// # Safety
    /// The columns are as long as `staged` says, and no other code uses them until the stream has come to the event.
    pub(super) unsafe fn enqueue(&self, staged: &Staged, stream: &Stream) -> Result<Event> {
        match staged {
            Staged { count: 0, .. } => {}
            lookup if staged.is_lookup() => {
                // Calls that change the map wait for what is noted here before they begin.
                let table = self.lock();
                self.outstanding.order_after_changes(stream)?;
                // SAFETY: this function's contract.
                unsafe { self.launch_find(lookup, &table, stream)? };
                self.outstanding.add(None, stream)?;
            }
            // SAFETY: this function's contract.
            change => unsafe { self.enqueue_change(change, stream)? },
        }
        stream.record()
    }

    /// # Safety
    /// As [`enqueue`](Self::enqueue).
    unsafe fn enqueue_change(&self, staged: &Staged, stream: &Stream) -> Result<()> {
        // The memory stays with this batch until it is done, so it is none of a workspace.
        let mut columns = self.outstanding.columns();
        let lists = columns.plans.lists(&self.device, staged.count, 4)?;
        let mut table = self.lock_exclusively();
        self.outstanding.order_after_all(stream)?;
        table.set_known(None);
        let rotation = table.bits;
        // SAFETY: this function's contract; the columns are kept below, whatever comes of the launches.
        let launched = unsafe {
            self.enqueue_plan(staged, rotation, &mut columns, stream).and_then(|planned| {
                self.launch_change(&batch_of(staged, &planned, &table), &table, lists, stream)
            })
        };
        self.outstanding.add(Some(columns), stream).and(launched)
    }

    /// Works all runs, displaces keys for those without a slot, and answers `Full` for the rest. Each kernel reads on the device how many
    /// the one before it left.
    ///
    /// # Safety
    /// As [`enqueue`](Self::enqueue); the batch and the lists are good until then, too.
    unsafe fn launch_change(
        &self,
        all: &Batch,
        table: &Table,
        mut lists: [DevicePtr; 2],
        stream: &Stream,
    ) -> Result<()> {
        let grid = Grid::covering(all.count, THREADS);
        let [mut counted, mut next] = [PENDING, PENDING_NEXT];
        let clear = |word: usize| table.control.fill_on(8 * word, 8, 0, stream);
        let at = |word: usize| table.control.ptr().offset(8 * word as u64);
        clear(counted)?;
        let first = Batch { pending: lists[0], pending_count: at(counted), ..*all };
        // SAFETY: this function's contract, as for the kernels below.
        unsafe { self.kernels.apply.launch(grid, &first, stream)? };
        let listed = |lists: [DevicePtr; 2], counted: usize, next: usize| Batch {
            list: lists[0],
            listed: all.count,
            listed_at: at(counted),
            pending: lists[1],
            pending_count: at(next),
            ..*all
        };
        for _ in 0..DISPLACEMENTS {
            clear(next)?;
            // SAFETY: as above.
            unsafe { self.kernels.place.launch(grid, &listed(lists, counted, next), stream)? };
            lists.swap(0, 1);
            (counted, next) = (next, counted);
        }
        // SAFETY: as above.
        unsafe { self.kernels.refuse.launch(grid, &listed(lists, counted, next), stream) }
    }
}
