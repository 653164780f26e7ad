//! A record that is laid out by several threads: the changes of a large batch, all of one form, each written once to where it goes to the
//! disk from, and summed piece by piece. How many bytes a piece takes is known before.

use warpkeep_core::ChangeKind;

use crate::batch::ChangeBatch;
use crate::change;
use crate::error::LogError;
use crate::frame::{self, RECORD_HEADER};
use crate::frame_buffer::FrameBuffer;
use crate::layout::{BLOCK_HEADER, PAGE};
use crate::sums::Sums;

/// Bytes of a frame before its first change, if it has one record.
pub(crate) const BEFORE_CHANGES: usize = BLOCK_HEADER + RECORD_HEADER;

/// What all changes of such a record have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeForm {
    /// The table they are about.
    pub table: u32,
    /// What they do.
    pub kind: ChangeKind,
}

/// How much a piece of such a record takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceLen {
    changes: usize,
    bytes: usize,
}

impl PieceLen {
    /// So many changes, each with a key and a value of so many bytes; deletes have a value of none.
    pub fn of(changes: usize, key_len: usize, value_len: usize) -> PieceLen {
        PieceLen { changes, bytes: changes.saturating_mul(change_len(key_len, value_len)) }
    }

    /// One more change.
    #[inline]
    pub fn add(&mut self, key_len: usize, value_len: usize) {
        self.changes += 1;
        self.bytes = self.bytes.saturating_add(change_len(key_len, value_len));
    }

    /// How many changes there are.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// The bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes of a change.
#[inline]
fn change_len(key_len: usize, value_len: usize) -> usize {
    change::HEADER.saturating_add(key_len.saturating_add(value_len).saturating_add(7) & !7)
}

/// Part of a record that one thread lays out.
#[derive(Debug)]
pub struct Piece<'r> {
    form: ChangeForm,
    bytes: &'r mut [u8],
    /// Where the next change goes.
    at: usize,
    /// Set once it is full.
    sum: &'r mut Option<u32>,
    left: usize,
    /// Something was pushed that does not belong here.
    spoilt: bool,
}

/// A record that is laid out, to be appended as it is.
///
/// ```
/// use warpkeep_core::ChangeKind;
/// use warpkeep_log::{ChangeBatch, ChangeForm, LaidRecord, PieceLen};
///
/// let form = ChangeForm { table: 1, kind: ChangeKind::Put };
/// let pieces = [1, 2].map(|changes| PieceLen::of(changes, 8, 4));
/// let mut record = LaidRecord::new(Vec::new(), form, &pieces, &ChangeBatch::new())?;
/// std::thread::scope(|scope| {
///     for (number, mut piece) in (7_u64..).zip(record.pieces()) {
///         scope.spawn(move || {
///             while piece.has_room() {
///                 piece.push(number, &number.to_le_bytes(), b"weft");
///             }
///             piece.finish();
///         });
///     }
/// });
/// assert_eq!(record.len(), 3);
/// # Ok::<(), warpkeep_log::LogError>(())
/// ```
#[derive(Debug)]
pub struct LaidRecord {
    form: ChangeForm,
    /// Room for the headers of frame and record, then the changes.
    frame: FrameBuffer,
    /// How much each piece takes, and its sum once it is full.
    pieces: Vec<(PieceLen, Option<u32>)>,
    /// What comes behind the pieces.
    beside: usize,
    beside_sum: u32,
    count: u32,
}

impl LaidRecord {
    /// Room for pieces that take so much each, and behind them other changes of the same batch. `buffer` is memory to use, whatever is in
    /// it: [`Log::lay`](crate::Log::lay) gives what the record before was in, and its pages need not be fetched from the system again.
    pub fn new(
        buffer: Vec<u8>,
        form: ChangeForm,
        pieces: &[PieceLen],
        beside: &ChangeBatch,
    ) -> Result<LaidRecord, LogError> {
        let sum = |each: fn(&PieceLen) -> usize| pieces.iter().map(each).fold(0, usize::saturating_add);
        let (changes, bytes) = (sum(PieceLen::changes), sum(PieceLen::bytes));
        let count = changes.saturating_add(beside.len());
        // No memory has room for more bytes than that.
        let count = u32::try_from(count).ok().filter(|_| bytes < usize::MAX / 2);
        let count = count
            .ok_or(LogError::TooLong { what: "a batch", len: changes.saturating_add(beside.len()) as u64 })?;
        let len = BEFORE_CHANGES + bytes + beside.bytes().len();
        let mut frame = FrameBuffer::within(buffer, len, PAGE as usize);
        frame[len - beside.bytes().len()..].copy_from_slice(beside.bytes());
        Ok(LaidRecord {
            form,
            frame,
            pieces: pieces.iter().map(|&len| (len, None)).collect(),
            beside: beside.bytes().len(),
            beside_sum: crc32c::crc32c(beside.bytes()),
            count,
        })
    }

    /// Its bytes, without headers: what is [promised](crate::Log::promise_bytes) room.
    pub fn bytes(&self) -> u64 {
        self.changes_len() as u64
    }

    /// The pieces, each to be filled and [finished](Piece::finish).
    pub fn pieces(&mut self) -> Vec<Piece<'_>> {
        let form = self.form;
        let end = self.frame.len() - self.beside;
        let mut rest = &mut self.frame[BEFORE_CHANGES..end];
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for (len, sum) in &mut self.pieces {
            let (bytes, others) = rest.split_at_mut(len.bytes);
            pieces.push(Piece { form, bytes, at: 0, sum, left: len.changes, spoilt: false });
            rest = others;
        }
        pieces
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn changes_len(&self) -> usize {
        self.frame.len() - BEFORE_CHANGES
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The sum of all changes; an error if a piece is not finished.
    pub(crate) fn sum(&self) -> Result<u32, LogError> {
        // By hundreds, and by one thread: what a library does for each of them from the start takes as long as writing does.
        let (mut all, mut sums) = (0, Sums::new());
        for &(len, sum) in &self.pieces {
            let sum = sum.ok_or(LogError::BadChange { what: "a piece of a record is not full" })?;
            all = sums.combine(all, sum, len.bytes);
        }
        Ok(sums.combine(all, self.beside_sum, self.beside))
    }

    pub(crate) fn into_frame(self) -> FrameBuffer {
        self.frame
    }
}

impl Piece<'_> {
    /// Whether it takes another change.
    pub fn has_room(&self) -> bool {
        self.left > 0 && !self.spoilt
    }

    /// The next change. One that there is no room for, or a delete with a value, leaves the piece unfinished, and so does one too few or a
    /// shorter one than was said before; then the record is refused.
    #[inline]
    pub fn push(&mut self, version: u64, key: &[u8], value: &[u8]) {
        let len = change_len(key.len(), value.len());
        let short = key.len().max(value.len()) <= u32::MAX as usize;
        let fits = short && (self.form.kind == ChangeKind::Put || value.is_empty());
        let room = self.bytes.get_mut(self.at..self.at.saturating_add(len));
        let (Some(to), true, true) = (room, fits, self.left > 0 && !self.spoilt) else {
            self.spoilt = true;
            return;
        };
        change::encode_at(self.form.table, self.form.kind, version, key, value, to);
        self.at += len;
        self.left -= 1;
    }

    /// Sums it.
    pub fn finish(self) {
        if self.left == 0 && self.at == self.bytes.len() && !self.spoilt {
            *self.sum = Some(crc32c::crc32c(self.bytes));
        }
    }
}

/// Fills in the header of the record in a frame that has one.
pub(crate) fn head(
    frame: &mut [u8],
    lsn: warpkeep_core::Lsn,
    count: u32,
    durability: warpkeep_core::Durability,
) {
    let changes = frame.len() - BEFORE_CHANGES;
    let header = frame::record_header(lsn, changes as u64, count, durability);
    frame[BLOCK_HEADER..BEFORE_CHANGES].copy_from_slice(&header);
}
