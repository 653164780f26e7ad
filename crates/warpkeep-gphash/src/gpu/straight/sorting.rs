//! Blocks that are used again, put in the order of their addresses: for the next batch, beside what this one sends.

use warpkeep_device::{Buffer, Device, Event, Stream};

use super::params::SortParams;
use crate::TableError;
use crate::gpu::engine::Workplace;
use crate::gpu::kernels::Kernels;
use crate::gpu::regions::Division;

/// Offsets of blocks in device memory.
pub(super) struct List {
    pub(super) buffer: Buffer,
    pub(super) count: u64,
}

/// Where they are put in order, and what is under way there.
pub(super) struct Sorting {
    place: Workplace,
    begun: Event,
    done: Event,
    under_way: Option<UnderWay>,
}

/// Some blocks on their way.
struct UnderWay {
    sorted: List,
    /// The same blocks as they were, which kernels read.
    lists: Vec<List>,
    /// All lists, one behind the other, if there are several.
    mixed: Option<Buffer>,
}

impl Sorting {
    pub(super) fn new(device: &Device) -> Result<Sorting, TableError> {
        let (begun, done) = (device.event()?, device.event()?);
        Ok(Sorting { place: Workplace::new(device)?, begun, done, under_way: None })
    }

    /// Blocks that are on their way.
    pub(super) fn coming(&self) -> u64 {
        self.under_way.as_ref().map_or(0, |coming| coming.sorted.count)
    }

    /// Begins to put the blocks of lists in order, after what is in a stream; nothing else may be on its way. `room` gives buffers for so many
    /// blocks. If it fails there is nothing under way, and the lists are as they were.
    pub(super) fn begin(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        lists: &mut Vec<List>,
        image_len: u64,
        after: &Stream,
        mut room: impl FnMut(u64) -> Result<Buffer, TableError>,
    ) -> Result<(), TableError> {
        let count = lists.iter().map(|list| list.count).sum();
        let sorted = room(count)?;
        let mixed = if lists.len() > 1 { Some(room(count)?) } else { None };
        let mut launch = || -> Result<(), TableError> {
            self.begun.record(after)?;
            self.place.stream.wait_for(&self.begun)?;
            let from = match (&mixed, lists.as_slice()) {
                (Some(mixed), _) => {
                    put_together(mixed, 0, lists, &self.place.stream)?;
                    mixed
                }
                (None, [only]) => &only.buffer,
                (None, _) => return Ok(()),
            };
            // SAFETY: all of them are kept until it is done, or were waited for.
            unsafe { sort(device, kernels, &mut self.place, (from, count), &sorted, image_len)? };
            Ok(self.done.record(&self.place.stream)?)
        };
        if let Err(error) = launch() {
            // Before the buffers are gone. The error is what there is to tell.
            let _ = self.place.stream.synchronize();
            return Err(error);
        }
        let sorted = List { buffer: sorted, count };
        self.under_way = Some(UnderWay { sorted, lists: std::mem::take(lists), mixed });
        Ok(())
    }

    /// The blocks that were on their way, in order, when they have arrived; and buffers that nobody needs any more.
    pub(super) fn finish(&mut self) -> Result<Option<(List, Vec<Buffer>)>, TableError> {
        let Some(UnderWay { sorted, lists, mixed }) = self.under_way.take() else { return Ok(None) };
        self.done.synchronize()?;
        Ok(Some((sorted, lists.into_iter().map(|list| list.buffer).chain(mixed).collect())))
    }
}

/// Copies lists one behind the other, from a byte of a buffer on.
pub(super) fn put_together(
    to: &Buffer,
    mut at: usize,
    lists: &[List],
    stream: &Stream,
) -> Result<(), TableError> {
    for list in lists {
        let bytes = 8 * list.count as usize;
        to.copy_from_on(at, &list.buffer, 0, bytes, stream)?;
        at += bytes;
    }
    Ok(())
}

/// Puts so many blocks in the order of their addresses, about, and into another buffer.
///
/// # Safety
/// Both buffers are as long as that, and they stay until the place's stream is synchronised.
pub(super) unsafe fn sort(
    device: &Device,
    kernels: &Kernels,
    place: &mut Workplace,
    (mixed, count): (&Buffer, u64),
    sorted: &Buffer,
    image_len: u64,
) -> Result<(), TableError> {
    let Workplace { stream, columns, .. } = place;
    let params = SortParams {
        blocks: mixed.ptr(),
        count,
        ranks: columns.ranks.room(device, 4 * count as usize)?,
        regions: Division::of(image_len, count).zeros(device, &mut columns.regions, stream)?,
        sorted: sorted.ptr(),
    };
    // SAFETY: the caller's promise; the columns have just got the room.
    unsafe {
        place.launch(&kernels.fused()?.sort_count, count, &params)?;
        params.regions.line_up(&kernels.fused()?.line_up, &place.stream)?;
        place.launch(&kernels.fused()?.sort, count, &params)
    }
}
