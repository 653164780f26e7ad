//! Keys and answers lie in device memory, and the host copies the values: the device points at records, threads of the host gather their values
//! in pinned memory, and they are copied up piece by piece while others are gathered.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warpkeep_device::{DevicePtr, Stream};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::copied_at_once;
use super::copying::{Copying, Sink};
use super::launches::look_for;
use crate::gpu::columns::Columns;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::mirror::{For, Reflection, spread};
use crate::gpu::order::ValuesBy;
use crate::gpu::params::{DeliverParams, GetParams, TellHostParams};
use crate::gpu::reading::GetRows;
use crate::{Table, TableError};

/// Bytes of values that the host [gathers](ValuesBy::Host) for one batch, at the most: they are memory of it that nobody else can use.
pub const MOST_GATHERED: usize = 64 << 20;
/// Bytes of a piece that is copied up, at least, and how many there are, at the most: a copy of fewer takes as long as the call.
const PIECE_BYTES: usize = 512 << 10;
const MOST_PIECES: usize = 16;

/// Threads of the host that gather, started when they are first needed.
#[derive(Default)]
pub(in crate::gpu) struct Hands {
    pool: OnceLock<Pool>,
    /// Batches that they had a part in.
    batches: AtomicU64,
}

/// What the host has to do for a batch when the device has told it which values are wanted.
pub(in crate::gpu) trait Left {
    /// Does it, with the place that the batch has; all answers are there when it returns. Gives how long it took from when the device was
    /// done.
    fn finish(self: Box<Self>, place: &mut Workplace, stream: &Stream) -> Result<Duration, TableError>;
}

/// The mirror that a batch looks at, to be kept until all is done; and what is left to do.
pub(in crate::gpu) type Told<'r> = (Reflection, Box<dyn Left + 'r>);

impl<P: Persist> DeviceEngine<P> {
    /// Batches of gets in device memory whose values [the host has fetched](Self::fetch_values_by).
    pub fn fetched_by_host(&self) -> u64 {
        self.hands.batches.load(Ordering::Relaxed)
    }

    /// Whether the host could fetch the values of a batch.
    pub(in crate::gpu) fn host_can_fetch(&self, table: &Table<P>, rows: &GetRows) -> bool {
        let bytes = table.value.max_len();
        let fits = bytes > 0 && bytes.is_multiple_of(8) && rows.count as usize <= MOST_GATHERED / bytes;
        let mirror = self.mirror.state().reflection();
        fits && rows.values.address().is_multiple_of(8) && mirror.is_some_and(|mirror| suits(&mirror, table))
    }

    /// Has the device answer a batch but for the values, and tell the host which they are.
    /// `None`, with nothing done, if the device is to fetch them.
    ///
    /// # Safety
    /// As [`DeviceEngine::launch_gets`], with a place for its scratch.
    pub(in crate::gpu) unsafe fn tell_host<'r>(
        &'r self,
        table: &'r Table<P>,
        get: GetParams,
        place: &mut Workplace,
        stream: &Stream,
    ) -> Result<Option<Told<'r>>, TableError> {
        let mirror = self.mirror.join(self, table, For::Reading)?;
        let Some(mirror) = mirror.filter(|mirror| suits(mirror, table)) else { return Ok(None) };
        let get = GetParams { table: get.table.reflected(mirror.params()), ..get };
        let gathering = Gathering { engine: self, table, get };
        match gathering.take_memory(&mut place.columns) {
            Err(TableError::Device(error)) if error.is_out_of_memory() => {
                // There is no sense in trying again with every batch.
                self.fetch_values_by(ValuesBy::Device);
                return Ok(None);
            }
            taken => taken?,
        }
        let params = TellHostParams { get, records: place.columns.records.host_ptr() };
        // SAFETY: the caller's promise; there is room for as many records.
        unsafe { self.kernels.tell_host.launch(spread(get.count), &params, stream)? };
        Ok(Some((mirror, Box::new(gathering))))
    }
}

/// Whether the host can gather what a mirror points at. What is in a value cache, or to be counted for one, is for the device.
fn suits<P: Persist>(mirror: &Reflection, table: &Table<P>) -> bool {
    mirror.tells_keys_apart(table) && mirror.rows().is_none() && mirror.heat().is_none()
}

/// A batch whose values are gathered.
struct Gathering<'r, P: Persist> {
    engine: &'r DeviceEngine<P>,
    table: &'r Table<P>,
    get: GetParams,
}

/// Rows that are copied up at once.
#[derive(Default)]
struct Piece {
    gathered: AtomicUsize,
    /// Rows of it that nobody has to copy.
    absent: AtomicUsize,
}

/// What a thread gathers: rows from one on.
struct Share<'a> {
    first: usize,
    values: &'a mut [u64],
    /// Empty if nobody wants them.
    versions: &'a mut [u64],
    /// Bytes of a value.
    row: usize,
}

impl Sink for Share<'_> {
    #[inline(always)]
    fn wants_versions(&self) -> bool {
        !self.versions.is_empty()
    }

    #[inline(always)]
    fn found(
        &mut self,
        index: usize,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool {
        if value.len() != self.row {
            return false;
        }
        let values: &mut [u8] = bytemuck::cast_slice_mut(self.values);
        copy(value, &mut values[index * self.row..][..self.row]);
        if let Some(to) = self.versions.get_mut(index) {
            *to = version;
        }
        true
    }

    fn absent(&mut self, _: usize) {}
}

/// How a batch is cut: rows of a piece, and of a share, of which a piece has some.
fn cut(count: usize, row: usize, threads: usize) -> (usize, usize) {
    let share = copied_at_once(count, threads);
    let piece = count.div_ceil(MOST_PIECES).max(PIECE_BYTES / row.max(1)).max(1);
    (piece.next_multiple_of(share), share)
}

impl<P: Persist> Gathering<'_, P> {
    fn count(&self) -> usize {
        self.get.count as usize
    }

    /// Words of a value.
    fn words(&self) -> usize {
        self.table.value.max_len() / 8
    }

    fn wants_versions(&self) -> bool {
        !self.get.versions.is_null()
    }

    /// Has pinned memory for all of it.
    fn take_memory(&self, columns: &mut Columns) -> Result<(), TableError> {
        let (device, count) = (self.engine.device(), self.count());
        columns.records.host::<u64>(device, count)?;
        columns.answers.host::<u64>(device, count * self.words())?;
        columns.versions.host::<u64>(device, if self.wants_versions() { count } else { 0 })?;
        Ok(())
    }

    /// Begins to copy up a piece that is gathered.
    ///
    /// # Safety
    /// All of it is gathered, and left alone until the stream is synchronised.
    unsafe fn send(
        &self,
        sent: &Sent,
        first: usize,
        count: usize,
        stream: &Stream,
    ) -> Result<(), TableError> {
        let (device, get, row) = (self.engine.device(), &self.get, 8 * self.words());
        if sent.has_all {
            let rows = |at: DevicePtr, bytes: usize| at.offset((first * bytes) as u64);
            // SAFETY: the caller's promise; both sides have as many rows.
            unsafe {
                device.copy_raw(rows(get.values, row), rows(sent.values, row), count * row, stream)?;
                if self.wants_versions() {
                    device.copy_raw(rows(get.versions, 8), rows(sent.versions, 8), 8 * count, stream)?;
                }
            }
            return Ok(());
        }
        // Rows of keys that are not there are the caller's.
        let wide = (row as u64 | get.values.address() | sent.values.address()).is_multiple_of(16);
        let params = DeliverParams {
            get: *get,
            first: first as u64,
            count: count as u64,
            records: sent.records,
            values: sent.values,
            versions: sent.versions,
            wide: u64::from(wide),
        };
        // SAFETY: the same.
        unsafe { self.engine.kernels.deliver.launch(spread((count * row / 8) as u64), &params, stream)? };
        Ok(())
    }
}

/// Where what is copied up lies, for the device; and whether no row of it is to be left out.
struct Sent {
    records: DevicePtr,
    values: DevicePtr,
    versions: DevicePtr,
    has_all: bool,
}

impl<P: Persist> Left for Gathering<'_, P> {
    fn finish(self: Box<Self>, place: &mut Workplace, stream: &Stream) -> Result<Duration, TableError> {
        let Hands { pool, batches } = &self.engine.hands;
        let (device, pool) = (self.engine.device(), pool.get_or_init(Pool::default));
        let (count, words, row) = (self.count(), self.words(), 8 * self.words());
        let (piece, share) = cut(count, row, pool.threads());
        let pieces: Vec<Piece> = (0..count.div_ceil(piece)).map(|_| Piece::default()).collect();
        let Columns { records, answers, versions, .. } = &mut place.columns;
        let at = (records.host_ptr(), answers.host_ptr(), versions.host_ptr());
        let mut noted = match self.wants_versions() {
            true => versions.host::<u64>(device, count)?,
            false => &mut [],
        }
        .chunks_mut(share);
        let rows = answers.host::<u64>(device, count * words)?.chunks_mut(share * words).enumerate();
        let shares: Vec<Share<'_>> = rows
            .map(|(number, values)| Share {
                first: number * share,
                values,
                versions: noted.next().unwrap_or_default(),
                row,
            })
            .collect();
        let copying = Copying {
            table: self.table,
            // The device has compared keys where that is needed.
            exact: true,
            streamed: count * row >= self.engine.streamed_from.load(Ordering::Relaxed),
        };
        let (told, doubt) = (OnceLock::<bool>::new(), AtomicBool::new(false));
        let (failed, begun) = (Mutex::new(None), Mutex::new(Instant::now()));
        let gather = |mut mine: Share<'_>| {
            look_for(&told);
            if !*told.wait() {
                return;
            }
            let (first, len) = (mine.first, mine.values.len() / words);
            let wanted = &records.fetched::<u64>(count)[first..][..len];
            let came = copying.copy(wanted, |_| None, &mut mine);
            if came.found + came.absent < len as u64 {
                doubt.store(true, Ordering::Relaxed);
            }
            let number = first / piece;
            let Piece { gathered, absent } = &pieces[number];
            absent.fetch_add(len - came.found as usize, Ordering::Relaxed);
            let of_piece = piece.min(count - number * piece);
            if gathered.fetch_add(len, Ordering::AcqRel) + len < of_piece {
                return;
            }
            let has_all = absent.load(Ordering::Relaxed) == 0;
            let sent = Sent { records: at.0, values: at.1, versions: at.2, has_all };
            // SAFETY: this was its last share, and the stream is synchronised below.
            let done = unsafe { self.send(&sent, number * piece, of_piece, stream) };
            if let Err(error) = done {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        };
        // Helpers are on their way while the caller waits for the device.
        let waited = pool.share_beside(shares, gather, || {
            /// Whoever waits is told, whatever has happened.
            struct End<'e>(&'e OnceLock<bool>);
            impl Drop for End<'_> {
                fn drop(&mut self) {
                    let _ = self.0.set(false);
                }
            }
            let _end = End(&told);
            let waited = stream.synchronize();
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let _ = told.set(waited.is_ok());
            waited
        });
        // Whatever came of it, nothing is under way when this returns.
        let arrived = stream.synchronize();
        waited?;
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)?;
        arrived?;
        batches.fetch_add(1, Ordering::Relaxed);
        if doubt.into_inner() {
            // A record where none can be: the device is to look itself.
            let ordered = self.engine.order.usual(count);
            // SAFETY: whoever has this reading keeps what its kernels need, and it is waited for.
            let mirror = unsafe {
                let mut watch = self.engine.straight.steps.look_away();
                self.engine.launch_gets(self.table, self.get, &mut place.columns, stream, ordered, &mut watch)
            };
            let arrived = stream.synchronize();
            drop(mirror?);
            arrived?;
        }
        Ok(begun.into_inner().unwrap_or_else(PoisonError::into_inner).elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_worth_a_copy_and_shares_go_round() {
        // A small batch goes up as one; of large ones there are several pieces, each of whole shares.
        assert_eq!(cut(4096, 128, 15), (4096, 64));
        assert_eq!(cut(16_384, 128, 15), (4096, 256));
        assert_eq!(cut(1 << 18, 128, 15), (1 << 14, 1024));
        for count in [0, 1, 63, 1000, 5000, 262_143] {
            for row in [8, 128, 4096] {
                let (piece, share) = cut(count, row, 4);
                assert!(
                    piece >= share && piece.is_multiple_of(share) && count.div_ceil(piece) <= MOST_PIECES
                );
            }
        }
    }
}
