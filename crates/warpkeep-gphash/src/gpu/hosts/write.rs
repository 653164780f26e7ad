//! Batches that are written from host memory straight through: they go up in parts, and while one is written the next is made ready.
//!
//! Where the host stores the words of the index it stores the values, too, from where they are: then nothing goes up but keys.

use warpkeep_core::{Answers, HostBatch, Op, Status};
use warpkeep_device::{Device, DevicePtr, Stream};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::filling::Filling;
use super::{SHARE, check_cells};
use crate::gpu::engine::{DeviceEngine, Turn, Workplace, check_fixed};
use crate::gpu::stage::words;
use crate::gpu::straight::{HostValues, StraightRows, StraightStage, Wrote};
use crate::{Table, TableError};

/// Operations that are written at once, at the most, and parts of a batch otherwise: enough to keep the device busy, and the host beside it.
const AT_ONCE: usize = 1 << 19;
const PARTS: usize = 4;
/// The least that is worth a part of its own.
const LEAST: usize = 1 << 16;
/// Operations that are written at once, at the most, where keys alone go up: that takes no time worth sharing.
const KEYS_AT_ONCE: usize = 1 << 20;

/// A batch in host memory whose operations all do the same.
pub struct HostWrites<'b> {
    /// A put, an insert, an update, or a delete, which is answered with no version: what it removed nobody could tell afterwards.
    pub op: Op,
    /// The batch.
    pub batch: HostBatch<'b>,
    /// Who helps.
    pub pool: &'b Pool,
    /// Operations that are written at once; 0 for as many as suit the batch.
    pub at_once: usize,
}

/// Operations of such a batch that are in device memory, to be written.
pub struct SentPart<'p, P: Persist> {
    /// The place of the first in the batch.
    pub first: usize,
    /// The version that the first writes.
    pub version: u64,
    table: &'p Table<P>,
    rows: StraightRows,
    /// The values, if the host stores them.
    values: Option<HostValues<'p>>,
    /// What they are sent with: they are there after what is in it.
    stream: &'p Stream,
}

impl<P: Persist> SentPart<'_, P> {
    /// Writes them [straight through](Turn::write_straight).
    pub fn write(&self, turn: &mut Turn<'_, P>) -> Result<Option<Wrote>, TableError> {
        let SentPart { table, rows, version, stream, .. } = self;
        // SAFETY: the columns are as long as the part, stay while it is there, and nobody else has their place.
        unsafe {
            match self.values {
                Some(values) => turn.write_values_of_host(table, rows, values, *version, stream),
                None => turn.write_straight(table, rows, *version, stream),
            }
        }
    }

    /// [Decides](Turn::decide_straight) them.
    pub fn decide<'s, 'e>(
        &'s self,
        turn: &'s mut Turn<'e, P>,
    ) -> Result<Option<StraightStage<'s, 'e, P>>, TableError> {
        let SentPart { table, rows, version, stream, .. } = self;
        // SAFETY: the same.
        unsafe {
            match self.values {
                Some(values) => turn.decide_values_of_host(table, rows, values, *version, stream),
                None => turn.decide_straight(table, rows, *version, stream),
            }
        }
    }
}

/// What the operations of a part are answered.
pub enum PartAnswers {
    /// The device has the codes, in the column that was given.
    OnDevice,
    /// All of it is known here.
    Here {
        /// The codes.
        statuses: Vec<u8>,
        /// What stands in place of them, by the place in the batch and in its order: status and version.
        apart: Vec<(usize, Status, u64)>,
    },
}

impl<P: Persist> DeviceEngine<P> {
    /// Whether [`Turn::write_from_host`] may do such a batch.
    pub fn writes_straight(&self, table: &Table<P>, op: Op) -> bool {
        matches!(op, Op::Put | Op::Insert | Op::Update | Op::Delete)
            && check_fixed(table).is_ok()
            && table.key_row_len() == Some(8)
            && self.points(table)
    }
}

impl<P: Persist> Turn<'_, P> {
    /// Writes a batch [straight through](Turn::write_straight), and answers. Operation `i` that writes gives its item the version
    /// `first_version + i`. Counts in `done` how many operations were done, from the first on: all of them, unless this way closed
    /// meanwhile. After an error some of those that are not answered may have been done.
    ///
    /// Nothing is logged, so it is for tables of stores without a log.
    pub fn write_from_host(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
    ) -> Result<(), TableError> {
        let each = |turn: &mut Turn<'_, P>, part: &SentPart<'_, P>| {
            Ok(part.write(turn)?.map(|_| PartAnswers::OnDevice))
        };
        self.write_from_host_by(table, writes, first_version, answers, done, each)
    }

    /// The same; each part is written by the caller, who says where its answers are. `None`, with nothing of the part done, ends it.
    pub fn write_from_host_by<E: From<TableError>>(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
        each: impl FnMut(&mut Turn<'_, P>, &SentPart<'_, P>) -> Result<Option<PartAnswers>, E>,
    ) -> Result<(), E> {
        let (engine, count) = (self.engine, writes.batch.len());
        if !engine.writes_straight(table, writes.op) {
            return Ok(());
        }
        check_cells("keys", writes.batch.keys(), count, |len| table.key.check_len(len))
            .and_then(|()| match writes.op {
                Op::Delete => Ok(()),
                _ => check_cells("values", writes.batch.values(), count, |len| table.value.check_len(len)),
            })
            .map_err(TableError::from)?;
        let keys_alone =
            writes.op == Op::Delete || engine.stores_values_by_host(table, writes.op, count as u64);
        let at_once = match writes.at_once {
            0 if keys_alone => KEYS_AT_ONCE,
            0 => count.div_ceil(PARTS).next_multiple_of(SHARE).clamp(LEAST, AT_ONCE),
            at_once => at_once,
        };
        let mut places = [engine.take_place()?, engine.take_place()?];
        let mut state = State { first_version, at_once, done };
        let wrote = self.write_parts(table, writes, &mut state, &mut places, answers, each);
        if wrote.is_ok() {
            // After an error something may be under way: then they are dropped, which waits for the device.
            places.into_iter().for_each(|place| engine.keep_place(place));
        }
        wrote
    }

    fn write_parts<E: From<TableError>>(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        state: &mut State<'_>,
        places: &mut [Workplace; 2],
        answers: &mut dyn Answers,
        mut each: impl FnMut(&mut Turn<'_, P>, &SentPart<'_, P>) -> Result<Option<PartAnswers>, E>,
    ) -> Result<(), E> {
        let (engine, count, at_once) = (self.engine, writes.batch.len(), state.at_once);
        let part = |first: usize| {
            let count = at_once.min(count.checked_sub(first).filter(|&left| left > 0)?);
            let stays = engine.stores_values_by_host(table, writes.op, count as u64);
            let values = stays.then(|| HostValues::new(writes.batch.values(), first));
            Some(Part { table, writes, first, count, values })
        };
        let [mut now, mut next] = places.each_mut();
        let mut coming = part(0);
        if let Some(part) = &coming {
            writes.pool.share(part.fillings(engine.device(), now)?, Filling::fill);
        }
        while let Some(this) = coming {
            let after = this.first + this.count;
            // SAFETY: the stream is synchronised before the host's side is used again: below, or by whoever drops the place.
            let rows = unsafe { this.send(engine.device(), now)? };
            coming = part(after);
            let fillings = match &coming {
                Some(part) => part.fillings(engine.device(), next)?,
                None => Vec::new(),
            };
            let (first, values) = (this.first, this.values);
            let version = state.first_version + first as u64;
            let sent = SentPart { first, version, table, rows, values, stream: &now.stream };
            let wrote = writes.pool.share_beside(fillings, Filling::fill, || {
                // Before anything is done: whoever has no space for a record is told by the way that tells each.
                match self.has_blocks_for(&rows) {
                    Ok(()) => each(self, &sent),
                    Err(_) => Ok(None),
                }
            })?;
            let Some(answered) = wrote else { break };
            this.answer(engine.device(), now, version, &answered, answers)?;
            (now, next, *state.done) = (next, now, after);
        }
        Ok(places.iter().try_for_each(|place| place.stream.synchronize()).map_err(TableError::from)?)
    }

    fn has_blocks_for(&mut self, rows: &StraightRows) -> Result<(), TableError> {
        let engine = self.engine;
        match rows.op {
            Op::Delete => Ok(()),
            _ => engine.supply().ensure(engine.device(), &engine.kernels, &mut self.place, rows.count),
        }
    }
}

/// How far a batch has come.
struct State<'s> {
    first_version: u64,
    /// Operations of a part.
    at_once: usize,
    done: &'s mut usize,
}

/// Operations of a batch that are written at once.
struct Part<'p, P: Persist> {
    table: &'p Table<P>,
    writes: &'p HostWrites<'p>,
    first: usize,
    count: usize,
    /// The values, if the host stores them.
    values: Option<HostValues<'p>>,
}

impl<'p, P: Persist> Part<'p, P> {
    /// Whether its values go up.
    fn sends_values(&self) -> bool {
        self.writes.op != Op::Delete && self.values.is_none()
    }

    /// Keys and values to be copied to the host's side of a place.
    fn fillings<'f>(&self, device: &Device, place: &'f mut Workplace) -> Result<Vec<Filling<'f>>, TableError>
    where
        'p: 'f,
    {
        let (batch, range) = (&self.writes.batch, (self.first, self.count));
        let (columns, value_words) = (&mut place.columns, words(self.table.value.max_len()));
        let mut fillings = Filling::keys(device, &mut columns.keys, self.table, batch.keys(), range)?;
        if self.sends_values() {
            fillings.extend(Filling::values(
                device,
                &mut columns.values,
                batch.values(),
                range,
                value_words,
            )?);
        }
        Ok(fillings)
    }

    /// Begins to copy them to the device.
    ///
    /// # Safety
    /// The stream is synchronised before the host's side is used again.
    unsafe fn send(&self, device: &Device, place: &mut Workplace) -> Result<StraightRows, TableError> {
        let (key_words, value_words) = (words(self.table.key_row()), words(self.table.value.max_len()));
        let (columns, stream, count) = (&mut place.columns, &place.stream, self.count);
        // SAFETY: the caller's promise.
        let (keys, values) = unsafe {
            let keys = columns.keys.send::<u64>(device, count * key_words, stream)?;
            let values = match value_words {
                0 => DevicePtr::NULL,
                _ if !self.sends_values() => DevicePtr::NULL,
                words => columns.values.send::<u64>(device, count * words, stream)?,
            };
            (keys, values)
        };
        let statuses = columns.statuses.room(device, count)?;
        Ok(StraightRows { op: self.writes.op, count: count as u64, keys, values, statuses })
    }

    /// Fetches the statuses, if they are on the device, and answers.
    fn answer(
        &self,
        device: &Device,
        place: &mut Workplace,
        version: u64,
        answered: &PartAnswers,
        answers: &mut dyn Answers,
    ) -> Result<(), TableError> {
        let (statuses, apart) = match answered {
            PartAnswers::Here { statuses, apart } => (&statuses[..], &apart[..]),
            PartAnswers::OnDevice => {
                // SAFETY: the stream is synchronised next.
                unsafe { place.columns.statuses.fetch::<u8>(device, self.count, &place.stream)? };
                place.stream.synchronize()?;
                (place.columns.statuses.fetched::<u8>(self.count), &[][..])
            }
        };
        let answer = |index: usize| -> (Status, u64) {
            let place = self.first + index;
            if let Ok(known) = apart.binary_search_by_key(&place, |apart| apart.0) {
                return (apart[known].1, apart[known].2);
            }
            let status = Status::try_from(statuses[index]).unwrap_or(Status::Indeterminate);
            let version = match status {
                _ if self.writes.op == Op::Delete => 0,
                Status::Ok | Status::Created => version + index as u64,
                // The device did not look, and while this has the turn nobody writes.
                Status::AlreadyExists => {
                    let key = self.writes.batch.keys().get(place);
                    self.table.get(key, |value| value.version()).unwrap_or(0)
                }
                _ => 0,
            };
            (status, version)
        };
        // By all threads, where answers are arrays: one by one they take longer than the writing.
        if let Some(rows) = answers.rows_mut() {
            let (mine, _) = rows.split_at(self.first + self.count);
            let (_, mine) = mine.split_at(self.first);
            let parts: Vec<_> = mine.chunks(SHARE).into_iter().enumerate().collect();
            self.writes.pool.share(parts, |(part, mut rows)| {
                for index in 0..rows.len() {
                    let (status, version) = answer(part * SHARE + index);
                    rows.answer(index, status, version);
                }
            });
            return Ok(());
        }
        for index in 0..statuses.len() {
            let (status, version) = answer(index);
            answers.answer(self.first + index, status, version);
        }
        Ok(())
    }
}
