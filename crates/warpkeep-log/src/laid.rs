//! A record that is laid out by several threads: the changes of a large batch, all of one form, each written once to where it goes to the
//! disk from, and summed piece by piece.

use warpkeep_core::ChangeKind;

use crate::batch::ChangeBatch;
use crate::change;
use crate::error::LogError;
use crate::frame::{self, RECORD_HEADER};
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
    /// Bytes of each key.
    pub key_len: usize,
    /// Bytes of each value; 0 for deletes.
    pub value_len: usize,
}

impl ChangeForm {
    /// Bytes of each change.
    pub fn change_len(&self) -> usize {
        change::HEADER + (self.key_len + self.value_len).next_multiple_of(8)
    }
}

/// Part of a record that one thread lays out.
#[derive(Debug)]
pub struct Piece<'r> {
    form: ChangeForm,
    bytes: &'r mut [u8],
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
/// use warpkeep_log::{ChangeBatch, ChangeForm, LaidRecord};
///
/// let form = ChangeForm { table: 1, kind: ChangeKind::Put, key_len: 8, value_len: 4 };
/// let mut record = LaidRecord::new(Vec::new(), form, &[1, 2], &ChangeBatch::new())?;
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
    frame: Vec<u8>,
    /// Changes of each piece, and its sum once it is full.
    pieces: Vec<(usize, Option<u32>)>,
    /// What comes behind the pieces.
    beside: usize,
    beside_sum: u32,
    count: u32,
}

impl LaidRecord {
    /// Room for pieces with so many changes each, and behind them other changes of the same batch. `buffer` is memory to use, whatever is in
    /// it: [`Log::lay`](crate::Log::lay) gives what the record before was in, and its pages need not be fetched from the system again.
    pub fn new(
        mut buffer: Vec<u8>,
        form: ChangeForm,
        pieces: &[usize],
        beside: &ChangeBatch,
    ) -> Result<LaidRecord, LogError> {
        let (lens, long) = ([("a key", form.key_len), ("a value", form.value_len)], u32::MAX as usize);
        if let Some(&(what, len)) = lens.iter().find(|(_, len)| *len > long) {
            return Err(LogError::TooLong { what, len: len as u64 });
        }
        if form.kind == ChangeKind::Delete && form.value_len > 0 {
            return Err(LogError::BadChange { what: "a delete with a value" });
        }
        let alike: usize = pieces.iter().sum();
        let count = u32::try_from(alike + beside.len());
        let count =
            count.map_err(|_| LogError::TooLong { what: "a batch", len: (alike + beside.len()) as u64 })?;
        let len = BEFORE_CHANGES + alike * form.change_len() + beside.bytes().len();
        if buffer.capacity() < len + PAGE as usize {
            // The system clears it page by page as it is written, which is done by all threads.
            buffer = vec![0; len + PAGE as usize];
        }
        buffer.resize(len, 0);
        buffer[len - beside.bytes().len()..].copy_from_slice(beside.bytes());
        Ok(LaidRecord {
            form,
            frame: buffer,
            pieces: pieces.iter().map(|&count| (count, None)).collect(),
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
        for (count, sum) in &mut self.pieces {
            let (bytes, others) = rest.split_at_mut(*count * form.change_len());
            pieces.push(Piece { form, bytes, sum, left: *count, spoilt: false });
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
        for &(count, sum) in &self.pieces {
            let sum = sum.ok_or(LogError::BadChange { what: "a piece of a record is not full" })?;
            all = sums.combine(all, sum, count * self.form.change_len());
        }
        Ok(sums.combine(all, self.beside_sum, self.beside))
    }

    pub(crate) fn into_frame(self) -> Vec<u8> {
        self.frame
    }
}

impl Piece<'_> {
    /// Whether it takes another change.
    pub fn has_room(&self) -> bool {
        self.left > 0 && !self.spoilt
    }

    /// The next change. One that does not have the form of the others, or is one too many, leaves the piece unfinished, and the record is
    /// refused.
    #[inline]
    pub fn push(&mut self, version: u64, key: &[u8], value: &[u8]) {
        let fits = key.len() == self.form.key_len && value.len() == self.form.value_len;
        if !fits || !self.has_room() {
            self.spoilt = true;
            return;
        }
        let at = self.bytes.len() - self.left * self.form.change_len();
        let to = &mut self.bytes[at..at + self.form.change_len()];
        change::encode_at(self.form.table, self.form.kind, version, key, value, to);
        self.left -= 1;
    }

    /// Sums it.
    pub fn finish(self) {
        if self.left == 0 && !self.spoilt {
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
