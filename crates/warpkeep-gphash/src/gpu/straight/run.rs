//! Deciding such a batch: what is known of it before anything is in the image.

use std::mem::offset_of;

use warpkeep_core::Op;
use warpkeep_device::{DevicePtr, Grid, Stream};
use warpkeep_image::{ImageError, Persist};
use warpkeep_record::RecordForm;

use super::host_values::HostValues;
use super::list::ListForm;
use super::params::{
    ACT_BYTES, BeatParams, Came, ENROLLED_BYTES, ENTRIES, MOST_PARTS, SEND_THREADS, SENDS, StraightParams,
    VEILS, WHOLE_BEAT,
};
use super::stage::{Held, StraightStage};
use super::{StraightRows, Wrote};
use crate::bucket::Body;
use crate::gpu::engine::{DeviceEngine, MOST_OPERATIONS, THREADS, Turn, Workplace};
use crate::gpu::kernels::FusedKernels;
use crate::gpu::mirror::For;
use crate::gpu::params::TableParams;
use crate::gpu::regions::{Division, Regions};
use crate::gpu::steps::Watch;
use crate::gpu::values::Rows;
use crate::{Table, TableError};

/// Lanes of a warp.
const WARP: u64 = 32;

/// Blocks that send records over the link, where nothing else is in their launch: so few keep it busy, and leave most multiprocessors to others.
const SEND_BLOCKS: u32 = 16;

/// Values up to this many bytes are digested by the thread that writes the record, if the batch is one part.
const MOST_DIGESTED: u64 = 512;

/// What is in front of enrolments: what the batch comes to, and how far parts are sent.
const BEFORE_ENROLMENTS: usize = size_of::<Came>() + size_of::<u32>() * MOST_PARTS;

/// Bytes that are zero when a batch with so many enrolments begins.
pub(super) fn cleared_for(enrolments: u64) -> usize {
    BEFORE_ENROLMENTS + ENROLLED_BYTES * (enrolments as usize + 1)
}

/// Launches beats, each with its parameters and about how many stores it takes. The one beat of a batch of one part does all that is left
/// to do.
pub(super) fn beats(
    kernels: &FusedKernels,
) -> impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError> {
    let FusedKernels { finish, beat, send, veil, settle, .. } = kernels;
    move |params: &BeatParams, stores: u64, stream: &Stream| {
        let (blocks, threads) = match (params.parts, params.does) {
            (1, WHOLE_BEAT) => (params.straight.count.div_ceil(WARP) as u32, THREADS),
            (_, SENDS) => (SEND_BLOCKS, SEND_THREADS),
            (_, WHOLE_BEAT) => {
                let resident = beat.resident_blocks(THREADS, 0)?.max(1);
                (Grid::covering(stores, THREADS).blocks.min(resident), THREADS)
            }
            (parts, _) => {
                let most = most_acts(params.straight.count, parts, params.early);
                (Grid::covering(most, THREADS).blocks, THREADS)
            }
        };
        let grid = Grid { blocks, threads, shared_bytes: 0 };
        // SAFETY: the parameters are those of a batch, which stays until its streams are synchronised.
        unsafe {
            match (params.parts, params.does) {
                (1, WHOLE_BEAT) => finish.launch(grid, &params.straight, stream)?,
                (_, SENDS) => send.launch(grid, params, stream)?,
                // All acts of the batch at once.
                (1, VEILS) => veil.launch(grid, &params.straight, stream)?,
                (_, ENTRIES) => settle.launch(grid, params, stream)?,
                _ => beat.launch(grid, params, stream)?,
            }
        }
        Ok(())
    }
}

/// Acts of a part, at the most, of a batch whose words the host stores: see `before_part` in `kernels/parts.h`.
fn most_acts(count: u64, parts: u64, early: u64) -> u64 {
    let of_the_rest = 4 * count / (4 * (parts - early) - 3) + 4;
    // No more of the operations that are decided first can act than there are.
    let of_the_first = Head::of(count, parts, early).operations.checked_div(early).map_or(0, |acts| acts + 4);
    count.min(of_the_rest.max(of_the_first))
}

/// What of a batch is decided before the rest, and sent while that is decided: nothing crosses the link before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) operations: u64,
    /// The parts that have its acts.
    pub(super) parts: u64,
}

impl Head {
    /// A quarter of the parts, if there are some, of a batch that is worth it: to send them takes longer than to decide the rest.
    fn of_parts(count: u64, parts: u64, least: u64) -> Option<Head> {
        let early = parts / 4;
        (early > 0 && count >= least).then(|| Head::of(count, parts, early))
    }

    fn of(count: u64, parts: u64, early: u64) -> Head {
        Head { operations: (count * early).div_ceil(parts), parts: early }
    }
}

/// Where there is not enough memory, or no whole slab of blocks, the way is not open: others take less.
fn where_there_is_room<T>(decided: Result<Option<T>, TableError>) -> Result<Option<T>, TableError> {
    match decided {
        Err(TableError::Device(error)) if error.is_out_of_memory() => Ok(None),
        Err(TableError::Image(ImageError::OutOfSpace { .. })) => Ok(None),
        decided => decided,
    }
}

/// Whether there is such a way for such a batch at all.
fn is_open<P: Persist>(table: &Table<P>, rows: &StraightRows) -> bool {
    matches!(rows.op, Op::Put | Op::Insert | Op::Update | Op::Delete)
        && table.shape.body == Body::Packed
        && table.key_row_len().is_some()
        && rows.count <= MOST_OPERATIONS
}

impl<'e, P: Persist> Turn<'e, P> {
    /// Writes a batch that lies in device memory, after what is in the caller's stream, and answers there. Operation `i` that writes
    /// gives its item the version `first_version + i`. When it returns, everything is in the image. `None`, with nothing done, if
    /// this way is not open at the moment: then the batch is to be [staged](Turn::stage).
    ///
    /// Nothing is logged, so it is for tables of stores without a log; where there is one, see [`Turn::decide_straight`].
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`StraightRows`] says, and nobody else uses them meanwhile.
    pub unsafe fn write_straight(
        &mut self,
        table: &Table<P>,
        rows: &StraightRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<Wrote>, TableError> {
        let launch = beats(self.engine.kernels.fused()?);
        // SAFETY: the caller's promise.
        unsafe { self.write_in_beats(table, rows, None, first_version, stream, launch) }
    }

    /// The same with values that the [host stores](DeviceEngine::stores_values_by_host).
    ///
    /// # Safety
    /// As [`Turn::write_straight`].
    pub(in crate::gpu) unsafe fn write_values_of_host(
        &mut self,
        table: &Table<P>,
        rows: &StraightRows,
        values: HostValues<'_>,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<Wrote>, TableError> {
        let launch = beats(self.engine.kernels.fused()?);
        // SAFETY: the caller's promise.
        unsafe { self.write_in_beats(table, rows, Some(values), first_version, stream, launch) }
    }

    /// The same, with beats launched by the caller: each with its parameters, and about how many stores it takes. The one beat of a batch of
    /// one part does all that is left to do.
    ///
    /// # Safety
    /// As [`Turn::write_straight`].
    pub(in crate::gpu) unsafe fn write_in_beats(
        &mut self,
        table: &Table<P>,
        rows: &StraightRows,
        values: Option<HostValues<'_>>,
        first_version: u64,
        stream: &Stream,
        beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<Option<Wrote>, TableError> {
        if rows.count == 0 {
            return Ok(is_open(table, rows).then(Wrote::default));
        }
        let (mut wrote, left) = {
            // SAFETY: the caller's promise.
            let decided = unsafe { self.decide(table, rows, values, first_version, stream, false) };
            let Some(mut stage) = where_there_is_room(decided)? else { return Ok(None) };
            let wrote = stage.finish(beat, || ())?;
            let left = if wrote.by_cpu > 0 { stage.take_left(wrote.by_cpu)? } else { Vec::new() };
            (wrote, left)
        };
        // SAFETY: the caller's promise.
        unsafe { self.do_left(table, (rows, values), first_version, &left, &mut wrote)? };
        Ok(Some(wrote))
    }

    /// Decides a batch that lies in device memory, after what is in the caller's stream, and answers there what the device knows. Nothing of
    /// it is in the image: [`StraightStage::learn`] tells what it comes to, so that it can be logged first. `None` if this way is not open
    /// at the moment.
    ///
    /// # Safety
    /// As [`Turn::write_straight`], until the stage is published or dropped.
    pub unsafe fn decide_straight<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &StraightRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<StraightStage<'s, 'e, P>>, TableError> {
        // SAFETY: the caller's promise.
        where_there_is_room(unsafe { self.decide(table, rows, None, first_version, stream, true) })
    }

    /// The same with values that the [host stores](DeviceEngine::stores_values_by_host).
    ///
    /// # Safety
    /// As [`Turn::decide_straight`].
    pub(in crate::gpu) unsafe fn decide_values_of_host<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &StraightRows,
        values: HostValues<'s>,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<StraightStage<'s, 'e, P>>, TableError> {
        // SAFETY: the caller's promise.
        where_there_is_room(unsafe { self.decide(table, rows, Some(values), first_version, stream, true) })
    }

    /// # Safety
    /// As [`Turn::decide_straight`].
    unsafe fn decide<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &StraightRows,
        values: Option<HostValues<'s>>,
        first_version: u64,
        stream: &Stream,
        tells: bool,
    ) -> Result<Option<StraightStage<'s, 'e, P>>, TableError> {
        let (engine, count) = (self.engine, rows.count);
        let RecordForm::Fixed { block, .. } = table.form else { return Ok(None) };
        if !is_open(table, rows) || count == 0 {
            return Ok(None);
        }
        let mut watch = engine.straight.steps.watch();
        let Some(mirror) = engine.mirror.join(engine, table, For::Writing(count))? else { return Ok(None) };
        if !mirror.tells_keys_apart(table) {
            // There was no memory for the keys. To compare them in the records would read each over the link.
            return Ok(None);
        }
        watch.host("host: mirror");
        let mut supply = engine.supply();
        supply.serve(table.len());
        let takes_blocks = rows.op != Op::Delete;
        if takes_blocks {
            supply.ensure(engine.device(), &engine.kernels, &mut self.place, count)?;
        }
        watch.host("host: blocks");
        // Items stay where they are for whoever reads; who moves them has the turn, too.
        let staying = engine.stay();
        let guard = table.heap.pin();
        let levels = table.levels(&guard);
        if levels.drained > 0 {
            return Ok(None);
        }
        let slots = levels.open().map(|(_, level)| level.buckets).sum::<u64>() * table.shape.slots() as u64;
        // After the blocks: they may have made the image grow.
        let params = TableParams::new(table, levels, engine.image.cover()?).reflected(mirror.params());
        let cached = mirror.rows().filter(|_| takes_blocks);
        if cached.is_some() && values.is_some() {
            // Somebody has begun to cache values since they were left where they are.
            return Ok(None);
        }
        if let Some(rows) = cached {
            engine.find_spares(&mut self.place, params, rows, &guard)?;
        }
        let mut copies = engine.level_copies();
        let Some(copied) = copies.join(engine, table, params, slots, &mut self.place)? else {
            return Ok(None);
        };
        watch.host("host: image and copies of its levels");
        self.place.begin_after(stream)?;
        let (device, place) = (engine.device(), &mut *self.place);
        let (columns, own) = (&mut place.columns, &place.stream);
        let enrolments = (2 * count).next_power_of_two();
        let retired = supply.room(device, count)?;
        let row = 8 * table.value.max_len().div_ceil(8) as u64;
        let mut params = StraightParams {
            table: params,
            count,
            first: 0,
            end: count,
            keys: rows.keys,
            values: rows.values,
            statuses: rows.statuses,
            first_version,
            copies: copied,
            enrolled: DevicePtr::NULL,
            enrolments,
            blocks: if takes_blocks { supply.at() } else { DevicePtr::NULL },
            acts: columns.pending.room(device, ACT_BYTES * count as usize)?,
            came: DevicePtr::NULL,
            asks: columns.asks.room(device, 4 * count as usize)?,
            retired,
            rows: match cached {
                Some(_) => columns.ranks.room(device, 8 * count as usize)?,
                None => DevicePtr::NULL,
            },
            acting: match tells {
                true => columns.acting.room(device, count as usize)?,
                false => DevicePtr::NULL,
            },
            op: u32::from(rows.op as u8),
            block_len: block as u32,
            wide: u32::from((row | rows.values.address() | table.form.value_step()).is_multiple_of(16)),
            decided: DevicePtr::NULL,
            ranks: DevicePtr::NULL,
            regions: Regions::NONE,
            words: DevicePtr::NULL,
            sent: DevicePtr::NULL,
            told: DevicePtr::NULL,
            digests: DevicePtr::NULL,
            index_bits: 0,
        };
        let form = ListForm::of(table.form, rows.op, count, first_version, table.image().len());
        let profile = engine.profile();
        // Small ones are one chunk, whoever publishes the words.
        let form = form.filter(|_| profile.chunks(count, true) > 1);
        let mut hands = form.and_then(|form| Some((engine.straight.words.hands(profile.publish_by)?, form)));
        if values.is_some() && hands.as_ref().is_none_or(|(_, form)| form.tails().is_none()) {
            return Ok(None);
        }
        if let Some((_, form)) = &hands {
            match columns.told_words.host::<[u64; 2]>(device, 2 * MOST_PARTS + form.pieces(count)) {
                Ok(_) => {
                    params.words = columns.told_words.host_ptr();
                    params.index_bits = form.index_bits();
                }
                // There is no memory for the host's list, so the device publishes.
                Err(TableError::Device(error)) if error.is_out_of_memory() && values.is_none() => {
                    hands = None;
                }
                Err(error) => return Err(error),
            }
        }
        let parts = profile.chunks(count, hands.is_some());
        if hands.is_none() && parts > 1 {
            params.decided = columns.fetchings.room(device, ACT_BYTES * count as usize)?;
            params.ranks = columns.act_ranks.room(device, 4 * count as usize)?;
            params.regions = Division::of(slots, count).zeros(device, &mut columns.regions, own)?;
        }
        // Digests of few and short values are computed by the threads that write them: that takes less than a launch.
        let is_long = row > MOST_DIGESTED;
        if table.form.has_checksums() && takes_blocks && values.is_none() && (parts > 1 || is_long) {
            params.digests = columns.digests.room(device, 4 * count as usize)?;
        }
        // It has somewhere to go before anything is in the image.
        columns.enrolled.host::<Came>(device, 1)?;
        if parts == 1 && hands.is_none() {
            params.told = columns.enrolled.host_ptr();
        }
        // What the batch comes to, and behind it how far parts are sent, and the enrolments.
        watch.device("clearing", device, own, || {
            params.came = columns.enrolled.take_zeros(device, cleared_for(enrolments), own)?;
            params.sent = params.came.offset(size_of::<Came>() as u64);
            params.enrolled = params.came.offset(BEFORE_ENROLMENTS as u64);
            Ok(())
        })?;
        // What is in the copies, if one of these fails or it is given up, nobody knows.
        copies.outdate();
        let held = Held { watch, supply, copies, staying, guard };
        // Whoever logs wants to know all of it first; and what becomes of rows is found out for all acts at once.
        let head = match hands.is_some() && !tells && cached.is_none() {
            true => Head::of_parts(count, parts, profile.sends_early_from()),
            false => None,
        };
        let mut stage = StraightStage {
            table,
            turn: self,
            rows: *rows,
            values,
            params,
            parts,
            head,
            hands,
            mirror,
            held: Some(held),
        };
        // SAFETY: the caller's promise; the other columns are as long as the kernels take them to be, and are not touched until they
        // are done, which the stage sees to. The turn keeps other writers away.
        unsafe { stage.launch_deciding()? };
        Ok(Some(stage))
    }
}

/// Puts the kernels that decide a batch into the stream of its workplace.
///
/// # Safety
/// What the parameters lead to is as long as the kernels take it to be, and nobody else touches it until the stream is synchronised.
pub(super) unsafe fn launch_deciding<P: Persist>(
    engine: &DeviceEngine<P>,
    place: &Workplace,
    params: &StraightParams,
    head: Option<Head>,
    cached: Option<&Rows>,
    watch: &mut Watch<'_>,
) -> Result<(), TableError> {
    let (device, kernels) = (engine.device(), &engine.kernels);
    let (count, stream) = (params.count, &place.stream);
    let now = StraightParams { end: head.map_or(count, |head| head.operations), ..*params };
    // SAFETY: as this function's contract says.
    unsafe {
        if !params.digests.is_null() {
            let threads = count * digest_lanes(u64::from(params.table.value_len));
            watch.device("digests", device, stream, || {
                place.launch(&kernels.fused()?.digest, threads, params)
            })?;
        }
        watch.device("enrol", device, stream, || place.launch(&kernels.fused()?.enrol, count, params))?;
        watch.device("decide", device, stream, || place.launch(&kernels.fused()?.decide, now.end, &now))?;
        if head.is_some() {
            // Before the others are counted, too.
            let [acts, early] = [offset_of!(Came, acts), offset_of!(Came, early)];
            let at = |field: usize| params.came.offset(field as u64);
            device.copy_raw(at(early), at(acts), size_of::<u64>(), stream)?;
        }
        if !params.decided.is_null() {
            watch.device("line up", device, stream, || {
                params.regions.line_up(&kernels.fused()?.line_up, stream)
            })?;
            watch.device("arrange", device, stream, || {
                place.launch(&kernels.fused()?.arrange, count, params)
            })?;
        }
        // Before entries are veiled: it looks which of them lead to rows.
        if let Some(rows) = cached {
            watch.device("follow", device, stream, || engine.follow(place, params, rows))?;
        }
    }
    Ok(())
}

/// Threads that together digest a value of this many bytes: `digest_lanes` in `kernels/straight.h`.
fn digest_lanes(value_len: u64) -> u64 {
    match value_len.div_ceil(8) {
        64.. => 32,
        8.. => 8,
        _ => 1,
    }
}

/// Puts those that write it behind them.
pub(super) fn launch_beats<P: Persist>(
    engine: &DeviceEngine<P>,
    stream: &Stream,
    params: &StraightParams,
    parts: u64,
    watch: &mut Watch<'_>,
    mut beat: impl FnMut(&BeatParams, u64, &Stream) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let device = engine.device();
    let stores = stores_of_beat(params, parts);
    let (step, beats) = if parts == 1 { ("finish", 1) } else { ("beat", parts + 2) };
    for number in 0..beats {
        let params =
            BeatParams { straight: *params, beat: number, parts, does: WHOLE_BEAT, early: 0, until: 0 };
        watch.device(step, device, stream, || beat(&params, stores, stream))?;
    }
    Ok(())
}

/// About how many stores a beat takes.
pub(super) fn stores_of_beat(params: &StraightParams, parts: u64) -> u64 {
    let pieces = u64::from(params.block_len) / if params.wide == 1 { 16 } else { 8 };
    (params.count / parts + 1) * if params.blocks.is_null() { 1 } else { pieces }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `before_part` in `kernels/parts.h`.
    fn before_part(parts: u64, early_parts: u64, early: u64, acts: u64, part: u64) -> u64 {
        let early = if early_parts > 0 { early & !3 } else { 0 };
        if part >= parts {
            acts
        } else if part < early_parts {
            (early * part / early_parts) & !3
        } else {
            early + ((4 * (acts - early) * (part - early_parts) / (4 * (parts - early_parts) - 3)) & !3)
        }
    }

    #[test]
    fn parts_have_every_act_once_and_no_more_than_threads() {
        for (count, parts) in [(4, 4), (5, 4), (9, 7), (300, 8), (1 << 20, 32), ((1 << 22) + 3, 64)] {
            let head = Head::of_parts(count, parts, 4).unwrap();
            assert!(head.parts < parts && head.operations < count, "{head:?}");
            // All of the head act, or hardly any; and all of the others, or none.
            for early in [0, 1, head.operations / 3, head.operations] {
                for acts in [early, early + (count - head.operations) / 5, early + count - head.operations] {
                    let begins: Vec<u64> =
                        (0..=parts).map(|part| before_part(parts, head.parts, early, acts, part)).collect();
                    assert_eq!((begins[0], begins[parts as usize]), (0, acts));
                    assert!(begins[head.parts as usize] <= early, "nothing is sent that is not decided");
                    let most = most_acts(count, parts, head.parts);
                    for pair in begins.windows(2) {
                        assert!(
                            pair[0] <= pair[1] && pair[1] - pair[0] <= most,
                            "{count} {parts} {begins:?}"
                        );
                        assert!(pair[0].is_multiple_of(4));
                    }
                }
            }
        }
        assert_eq!([Head::of_parts(1000, 3, 0), Head::of_parts(1000, 4, 1001)], [None; 2]);
        assert_eq!(most_acts(1 << 20, 32, 0), (4 << 20) / 125 + 4);
    }
}
