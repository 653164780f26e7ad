//! Checksummed blocks in a file, the common form of log frames and checkpoint blocks.
//!
//! A block has a header of 64 bytes (magic, CRC, payload length, and 48 bytes of its own) and a payload. The CRC is
//! seeded with the store's id, so that bytes of another store, or a value crafted to look like a block, do not pass
//! the check.

use crate::error::LogError;
use crate::files::File;
use crate::layout::{BLOCK_HEADER, put_u32, put_u64, u32_at, u64_at};

/// Bytes read in one call.
const WINDOW: usize = 256 << 10;
/// Payloads up to this size are read before they are checked; longer ones only once their checksum holds, because a
/// damaged length must not become an allocation.
const TRUSTED_LEN: u64 = 1 << 20;

pub(crate) type BlockHeader = [u8; BLOCK_HEADER];

/// The start of every CRC in the files of a store.
#[derive(Clone, Copy)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn of(store_id: &[u8; 16]) -> Seed {
        Seed(crc32c::crc32c(store_id))
    }

    fn crc(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }
}

/// The end of a block whose checksum is already computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summed {
    /// Offset of the first summed byte.
    pub(crate) from: usize,
    /// Its CRC, not seeded.
    pub(crate) crc: u32,
}

/// Fills in magic, length and CRC of a block whose own header words and payload are in place.
pub(crate) fn seal(block: &mut [u8], magic: &[u8; 4], summed: Option<Summed>, seed: Seed) {
    let payload_len = (block.len() - BLOCK_HEADER) as u64;
    block[..4].copy_from_slice(magic);
    put_u64(block, 8, payload_len);
    let crc = match summed {
        None => seed.crc(&block[8..]),
        Some(Summed { from, crc }) => {
            crc32c::crc32c_combine(seed.crc(&block[8..from]), crc, block.len() - from)
        }
    };
    put_u32(block, 4, crc);
}

pub(crate) fn payload_len(header: &BlockHeader) -> u64 {
    u64_at(header, 8)
}

/// Reads blocks through a window, so that small ones do not cost a call each.
pub(crate) struct BlockReader {
    file: File,
    len: u64,
    seed: Seed,
    window: Vec<u8>,
    window_at: u64,
}

impl BlockReader {
    pub(crate) fn new(file: File, seed: Seed) -> Result<BlockReader, LogError> {
        let len = file.len()?;
        Ok(BlockReader { file, len, seed, window: Vec::new(), window_at: 0 })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Up to `want` bytes from `offset`; fewer only at the end of the file or of the window.
    pub(crate) fn peek(&mut self, offset: u64, want: usize) -> Result<&[u8], LogError> {
        let want = want.min(WINDOW);
        let inside =
            offset >= self.window_at && offset + want as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            let len = WINDOW.min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(WINDOW));
            self.window.resize(len, 0);
            self.window_at = offset;
            let read = self.file.read(&mut self.window, offset)?;
            self.window.truncate(read);
        }
        let from = usize::try_from(offset - self.window_at).unwrap_or(usize::MAX).min(self.window.len());
        let to = (from + want).min(self.window.len());
        Ok(&self.window[from..to])
    }

    /// The header at `offset` if the file reaches that far and the payload it promises fits into the file.
    pub(crate) fn header(&mut self, offset: u64) -> Result<Option<BlockHeader>, LogError> {
        let len = self.len;
        let Ok(header) = BlockHeader::try_from(self.peek(offset, BLOCK_HEADER)?) else { return Ok(None) };
        let room = len - offset - BLOCK_HEADER as u64;
        Ok((payload_len(&header) <= room).then_some(header))
    }

    /// Whether the checksum of the block at `offset` holds.
    pub(crate) fn verify(&mut self, offset: u64, header: &BlockHeader) -> Result<bool, LogError> {
        let mut crc = self.seed.crc(&header[8..]);
        let mut at = offset + BLOCK_HEADER as u64;
        let mut left = payload_len(header);
        while left > 0 {
            let chunk = self.peek(at, usize::try_from(left).unwrap_or(WINDOW))?;
            if chunk.is_empty() {
                return Ok(false);
            }
            crc = crc32c::crc32c_append(crc, chunk);
            at += chunk.len() as u64;
            left -= chunk.len() as u64;
        }
        Ok(crc == u32_at(header, 4))
    }

    /// Reads the payload of the block at `offset` and returns whether its checksum holds.
    pub(crate) fn payload(
        &mut self,
        offset: u64,
        header: &BlockHeader,
        out: &mut Vec<u8>,
    ) -> Result<bool, LogError> {
        let len = payload_len(header);
        if len > TRUSTED_LEN && !self.verify(offset, header)? {
            return Ok(false);
        }
        let Ok(len) = usize::try_from(len) else { return Ok(false) };
        out.clear();
        let window = self.peek(offset + BLOCK_HEADER as u64, len)?;
        if window.len() == len {
            out.extend_from_slice(window);
        } else {
            out.resize(len, 0);
            if self.file.read(out, offset + BLOCK_HEADER as u64)? < len {
                return Ok(false);
            }
        }
        Ok(crc32c::crc32c_append(self.seed.crc(&header[8..]), out) == u32_at(header, 4))
    }
}
