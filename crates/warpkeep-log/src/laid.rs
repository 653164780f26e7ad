//! A record laid out by several threads. The changes of a large batch all have the same form; each is written once,
//! directly to the buffer that goes to the disk, and checksummed piece by piece. The length of a piece is known
//! beforehand.

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

/// The properties that all changes of such a record share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeForm {
    /// The table they are about.
    pub table: u32,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The length of a piece of such a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceLen {
    changes: usize,
    bytes: usize,
}

impl PieceLen {
    /// `changes` changes, each with a key of `key_len` and a value of `value_len` bytes; deletes have an empty
    /// value.
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

/// Part of a record, laid out by one thread.
#[derive(Debug)]
pub struct Piece<'r> {
    form: ChangeForm,
    bytes: &'r mut [u8],
    /// Where the next change goes.
    at: usize,
    /// The checksum, set once the piece is full.
    sum: &'r mut Option<u32>,
    left: usize,
    /// A change was pushed that does not belong here.
    spoilt: bool,
}

/// A laid-out record, appended without being copied.
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
    /// The length of each piece, and its checksum once it is full.
    pieces: Vec<(PieceLen, Option<u32>)>,
    /// Bytes of the changes behind the pieces.
    beside: usize,
    beside_sum: u32,
    count: u32,
}

impl LaidRecord {
    /// Space for pieces of the given lengths, and behind them other changes of the same batch. `buffer` is memory
    /// to use, with any contents: [`Log::lay`](crate::Log::lay) passes the memory of an earlier record, whose pages
    /// the system need not provide again.
    pub fn new(
        buffer: Vec<u8>,
        form: ChangeForm,
        pieces: &[PieceLen],
        beside: &ChangeBatch,
    ) -> Result<LaidRecord, LogError> {
        let sum = |each: fn(&PieceLen) -> usize| pieces.iter().map(each).fold(0, usize::saturating_add);
        let (changes, bytes) = (sum(PieceLen::changes), sum(PieceLen::bytes));
        let count = changes.saturating_add(beside.len());
        // No memory can hold more bytes than that.
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

    /// Its bytes, without headers: the size to [promise](crate::Log::promise_bytes) room for.
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

    /// The checksum of all changes; an error if a piece is not finished.
    pub(crate) fn sum(&self) -> Result<u32, LogError> {
        // One thread combines hundreds of checksums: the library's own function starts from scratch for each, which
        // takes as long as the write.
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

    /// Adds the next change. A change that does not fit, a delete with a value, one change too few, or one that is
    /// shorter than announced leaves the piece unfinished, and then the record is refused.
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

    /// Computes the checksum of the piece.
    pub fn finish(self) {
        if self.left == 0 && self.at == self.bytes.len() && !self.spoilt {
            *self.sum = Some(crc32c::crc32c(self.bytes));
        }
    }
}

/// Fills in the record header of a frame that holds one record.
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
