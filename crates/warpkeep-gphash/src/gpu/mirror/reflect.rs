//! Making the entries of a mirror from the items in an image.

use warpkeep_device::{Device, DevicePtr};
use warpkeep_image::Persist;

use crate::TableError;
use crate::gpu::columns::Columns;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::params::{CollectParams, ReflectParams, Run, TableParams};
use crate::gpu::regions::Division;
use crate::gpu::straight::params::SortParams;

/// Slots whose items are reflected in one go: their records take a few hundred megabytes of device memory meanwhile.
const AT_ONCE: u64 = 1 << 24;
/// If there is not enough of it, fewer, and at last so few that there is no sense in putting them in order.
const FEW: u64 = 1 << 8;

/// How records lie, for whoever reads them in order.
pub(super) struct Way {
    /// Bytes of the image.
    pub(super) image_len: u64,
    /// Slots of a bucket.
    pub(super) slots: u64,
}

/// Memory for the records of some slots.
struct Lists {
    at_once: u64,
    /// In the order of the slots.
    records: DevicePtr,
    /// In the order of their addresses, with what is needed for that; none if there is no memory for it.
    sorted: Option<([DevicePtr; 2], Division)>,
}

impl Lists {
    fn new(device: &Device, columns: &mut Columns, wanted: u64, image_len: u64) -> Result<Lists, TableError> {
        let mut at_once = wanted.clamp(1, AT_ONCE);
        loop {
            let ordered = at_once > FEW || wanted <= FEW;
            let division = ordered.then(|| Division::of(image_len, at_once));
            match Lists::with_room_for(device, columns, at_once, division) {
                Err(TableError::Device(error)) if error.is_out_of_memory() && ordered => {
                    *columns = Columns::default();
                    at_once = (at_once / 4).max(FEW.min(at_once));
                    if at_once <= FEW {
                        return Lists::with_room_for(device, columns, at_once, None);
                    }
                }
                lists => return lists,
            }
        }
    }

    fn with_room_for(
        device: &Device,
        columns: &mut Columns,
        at_once: u64,
        division: Option<Division>,
    ) -> Result<Lists, TableError> {
        let count = at_once as usize;
        let records = columns.records.room(device, 8 * count)?;
        let sorted = match division {
            Some(division) => {
                columns.regions.room(device, division.bytes())?;
                let lists =
                    [columns.ranks.room(device, 4 * count)?, columns.fetchings.room(device, 8 * count)?];
                Some((lists, division))
            }
            None => None,
        };
        Ok(Lists { at_once, records, sorted })
    }
}

impl Way {
    /// Makes entries for the items of all runs; how many there are. The caller keeps writers away, and the mirror is not read yet.
    pub(super) fn reflect_all<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        place: &mut Workplace,
        table: TableParams,
        runs: &[Run],
    ) -> Result<u64, TableError> {
        let longest = runs.iter().map(|run| run.buckets * self.slots).max().unwrap_or(0);
        let lists = Lists::new(engine.device(), &mut place.columns, longest, self.image_len)?;
        let mut items = 0;
        for &run in runs {
            let slots = run.buckets * self.slots;
            for first in (0..slots).step_by(lists.at_once as usize) {
                let part = CollectParams {
                    table,
                    run,
                    first,
                    count: lists.at_once.min(slots - first),
                    records: lists.records,
                    items: place.columns.counters.put(engine.device(), &[0_u64], &place.stream)?,
                };
                items += self.reflect_part(engine, place, part, &lists)?;
            }
        }
        // It is seldom done, and others can use the memory.
        place.columns = Columns::default();
        Ok(items)
    }

    /// Makes entries for the items of some slots of a run; how many there are. Keys are read in the order of their addresses, which over the
    /// link is several times as fast as in the order of their slots.
    fn reflect_part<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        place: &mut Workplace,
        part: CollectParams,
        lists: &Lists,
    ) -> Result<u64, TableError> {
        let (device, kernels) = (engine.device(), &engine.kernels);
        // SAFETY: the list has room for the records of all slots, and stays until the stream is synchronised; nobody writes to the table.
        unsafe { place.launch(&kernels.index()?.collect, part.count, &part)? };
        let items: Vec<u64> = place.columns.counters.take(1, &place.stream)?;
        let count = items[0];
        if count == 0 {
            return Ok(0);
        }
        let mut reflect = ReflectParams { table: part.table, records: part.records, count };
        if let Some(([ranks, sorted], division)) = lists.sorted {
            let regions = division.zeros(device, &mut place.columns.regions, &place.stream)?;
            let sort = SortParams { blocks: part.records, count, ranks, regions, sorted };
            // SAFETY: as above.
            unsafe {
                place.launch(&kernels.index()?.sort_count, count, &sort)?;
                regions.line_up(&kernels.index()?.line_up, &place.stream)?;
                place.launch(&kernels.index()?.sort, count, &sort)?;
            }
            reflect.records = sorted;
        }
        // SAFETY: as above; the mirror has as many buckets as it says and stays, too.
        unsafe { place.launch(&kernels.index()?.reflect, count, &reflect)? };
        // The next part uses the same columns.
        place.stream.synchronize()?;
        Ok(count)
    }
}
