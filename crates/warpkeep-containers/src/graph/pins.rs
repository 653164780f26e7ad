//! States of a graph in device memory that snapshots keep.
//!
//! New blocks are at the end of the pool. A snapshot therefore needs blocks before the end that the pool had then and none behind it, and a copy of the vertex records. As
//! long as it lives, blocks before that position are neither changed nor moved: lists that change are copied to new blocks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use warpkeep_device::{Buffer, DevicePtr, Result, Stream, TypedKernel};

use super::device::DeviceGraph;
use super::kernels::{GraphRef, Held};
use super::reading::View;
use super::storage::{RECORD, Storage, read_word};

/// A state that is kept as long as there is a reference to it.
#[derive(Debug)]
pub(super) struct Pin {
    /// How many calls had changed the graph.
    pub(super) version: u64,
    pub(super) view: View,
    /// The vertex records.
    records: Buffer,
}

impl Pin {
    /// Bytes of its vertex records.
    pub(super) fn record_bytes(&self) -> u64 {
        self.records.len() as u64
    }
}

/// The states of a graph that are kept, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pins(Mutex<Vec<Weak<Pin>>>);

impl Pins {
    /// Those that still are.
    pub(super) fn live(&self) -> Vec<Arc<Pin>> {
        let mut pins = self.lock();
        pins.retain(|pin| pin.strong_count() > 0);
        pins.iter().filter_map(Weak::upgrade).collect()
    }

    /// Where the last block of all of them ended.
    pub(super) fn frozen(&self) -> u64 {
        self.live().iter().map(|pin| pin.view.slots).max().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Pin>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceGraph {
    /// Keeps the present state. Snapshots between which nothing changes share it.
    pub(super) fn pin(&self) -> Result<Arc<Pin>> {
        // No call changes the graph meanwhile, and no other pin is made.
        let _turn = self.turn();
        let storage = self.read();
        if let Some(newest) = self.pins.live().pop().filter(|pin| pin.version == storage.version) {
            return Ok(newest);
        }
        let bytes = RECORD * storage.vertices as usize;
        let records = self.device.allocate(bytes)?;
        records.copy_from(0, &storage.records, 0, bytes)?;
        let view = storage.view();
        let view = View { graph: GraphRef { records: records.ptr(), ..view.graph }, ..view };
        let pin = Pin { version: storage.version, view, records };
        let pin = Arc::new(pin);
        self.pins.lock().push(Arc::downgrade(&pin));
        Ok(pin)
    }

    /// Finds out which blocks belong to snapshots, before a call changes the graph.
    pub(super) fn freeze(&self, storage: &mut Storage, stream: &Stream) -> Result<()> {
        let frozen = self.pins.frozen();
        if frozen == storage.frozen {
            return Ok(());
        }
        let frozen_dead = match frozen {
            0 => 0,
            _ => {
                let params = held(storage, storage.reference(), frozen);
                frozen - self.count_slots(&self.kernels.count_frozen, params, stream)?
            }
        };
        (storage.frozen, storage.frozen_dead) = (frozen, frozen_dead);
        Ok(())
    }

    /// The states that are kept, the oldest first, with the slots of blocks that each needs and the graph does not have any more.
    pub(super) fn held_by_pins(&self) -> Result<Vec<(Arc<Pin>, u64)>> {
        let storage = self.read();
        let workspace = self.workspaces.take(&self.device)?;
        let of_pin = |pin: Arc<Pin>| {
            let params = held(&storage, pin.view.graph, 0);
            let slots = self.count_slots(&self.kernels.count_held, params, &workspace.stream)?;
            Ok((pin, slots))
        };
        let held = self.pins.live().into_iter().map(of_pin).collect::<Result<_>>()?;
        self.workspaces.put_back(workspace);
        Ok(held)
    }

    fn count_slots(&self, kernel: &TypedKernel<Held>, params: Held, stream: &Stream) -> Result<u64> {
        let slots = self.device.allocate_zeroed(8)?;
        let params = Held { slots: slots.ptr(), ..params };
        let vertices = params.pinned.vertices.max(params.graph.vertices);
        // SAFETY: the caller has borrowed the storage and a reference to the pin, until the stream is synchronised by the read below.
        unsafe { self.launch(kernel, vertices, &params, stream)? };
        read_word(&slots, stream)
    }
}

fn held(storage: &Storage, pinned: GraphRef, frozen: u64) -> Held {
    Held { pinned, graph: storage.reference(), frozen, slots: DevicePtr::NULL }
}
