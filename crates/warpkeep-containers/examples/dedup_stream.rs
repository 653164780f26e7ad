//! Deduplicates a stream of events: of each id the first event is kept.
//!
//! Batches of ids lie in device memory. The device marks the first occurrences of one batch while the host makes the next one: the calls are
//! enqueued, and the host waits only when it needs the marks.

use std::error::Error;

use warpkeep_containers::{HashMapOptions, HashSet, MapOpKind, MapOpKinds, MapStatus};
use warpkeep_device::{Buffer, Device, DeviceChoice, Event};

const BATCHES: u32 = 6;
const EVENTS: usize = 5000;

/// A batch whose kernels are in the stream.
struct InFlight {
    ids: Vec<u32>,
    /// The kernels use both until the event.
    _on_device: Buffer,
    statuses: Buffer,
    done: Event,
}

impl InFlight {
    /// The ids that no batch had before, each once.
    fn first_occurrences(self) -> Result<Vec<u32>, Box<dyn Error>> {
        self.done.synchronize()?;
        let statuses = self.statuses.to_vec::<u8>()?;
        if statuses.contains(&(MapStatus::Full as u8)) {
            return Err("more different ids came than room was reserved for; reserve more".into());
        }
        let is_new = |(_, status): &(u32, u8)| *status == MapStatus::Inserted as u8;
        Ok(self.ids.into_iter().zip(statuses).filter(is_new).map(|(id, _)| id).collect())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let (seen, stream) = (HashSet::<u32>::new(&device, &HashMapOptions::default())?, device.stream()?);
    // An enqueued batch cannot grow the set: room for all ids that can come.
    seen.reserve(20_000)?;
    let (mut in_flight, mut kept) = (None::<InFlight>, Vec::new());
    for number in 0..BATCHES {
        // Ids that repeat within a batch and from batch to batch.
        let ids: Vec<u32> =
            (0..EVENTS as u32).map(|i| (i * i + 4001 * number).wrapping_mul(0x9E37_79B9) >> 18).collect();
        let (on_device, mut statuses) = (device.upload(&ids)?, device.allocate(EVENTS)?);
        let insert = MapOpKinds::All(MapOpKind::Insert);
        // SAFETY: both buffers are kept in `InFlight` and not used until its event has been waited for.
        let done = unsafe { seen.enqueue_on(insert, &on_device, EVENTS, &mut statuses, &stream)? };
        let batch = InFlight { ids, _on_device: on_device, statuses, done };
        if let Some(before) = in_flight.replace(batch) {
            kept.extend(before.first_occurrences()?);
        }
    }
    if let Some(last) = in_flight {
        kept.extend(last.first_occurrences()?);
    }
    let mut different = kept.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!((kept.len(), kept.len() as u64), (different.len(), seen.len()?));
    println!("kept {} of {} events; {:?}", kept.len(), BATCHES as usize * EVENTS, seen.stats()?);
    Ok(())
}
