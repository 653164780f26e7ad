//! The checksummed page that begins every segment and checkpoint, and is all of a manifest.

use crate::error::LogError;
use crate::layout::{PAGE, put_u32, put_u64, u32_at, u64_at};

/// The format version written, and the only one read.
pub(crate) const VERSION: u32 = 1;

const VERSION_AT: usize = 8;
const FLAG_AT: usize = 12;
const STORE_AT: usize = 16;
const CRC_AT: usize = PAGE as usize - 4;

/// Why a page is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageFault {
    /// Too short, other magic or bad checksum: what a crash leaves of a page that was never synced.
    Damaged(&'static str),
    /// A good page of a later format.
    Newer(u32),
}

impl PageFault {
    /// Converts to an error about `file`; `damaged` makes the error in the case of damage.
    pub(crate) fn into_error(self, file: &str, damaged: impl FnOnce(&'static str) -> LogError) -> LogError {
        match self {
            PageFault::Damaged(what) => damaged(what),
            PageFault::Newer(version) => LogError::NewerVersion { file: file.to_owned(), version },
        }
    }
}

/// One page: magic, version, a flag word, the store's id, words, zeros, CRC.
#[derive(Clone)]
pub(crate) struct Page(Box<[u8; PAGE as usize]>);

impl Page {
    /// Offset of the checksum, and end of the writable part.
    pub(crate) const END: usize = CRC_AT;

    pub(crate) fn new(magic: &[u8; 8], store_id: &[u8; 16]) -> Page {
        let mut bytes = Box::new([0; PAGE as usize]);
        bytes[..8].copy_from_slice(magic);
        put_u32(&mut bytes[..], VERSION_AT, VERSION);
        bytes[STORE_AT..STORE_AT + 16].copy_from_slice(store_id);
        Page(bytes)
    }

    /// Checks what was read; `bytes` may be short.
    pub(crate) fn check(bytes: &[u8], magic: &[u8; 8]) -> Result<Page, PageFault> {
        let Ok(bytes) = <[u8; PAGE as usize]>::try_from(bytes) else {
            return Err(PageFault::Damaged("the first page is cut short"));
        };
        if bytes[..8] != *magic {
            return Err(PageFault::Damaged("the first page has another magic"));
        }
        // The checksum comes before the version: a damaged version field must not read as "newer".
        if crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(&bytes, CRC_AT) {
            return Err(PageFault::Damaged("the first page fails its checksum"));
        }
        match u32_at(&bytes, VERSION_AT) {
            VERSION => Ok(Page(Box::new(bytes))),
            version => Err(PageFault::Newer(version)),
        }
    }

    pub(crate) fn flag(&self) -> u32 {
        u32_at(&self.0[..], FLAG_AT)
    }

    pub(crate) fn set_flag(&mut self, flag: u32) {
        put_u32(&mut self.0[..], FLAG_AT, flag);
    }

    pub(crate) fn store_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[STORE_AT..STORE_AT + 16]);
        id
    }

    pub(crate) fn word(&self, offset: usize) -> u64 {
        u64_at(&self.0[..], offset)
    }

    pub(crate) fn half(&self, offset: usize) -> u32 {
        u32_at(&self.0[..], offset)
    }

    pub(crate) fn set_half(&mut self, offset: usize, value: u32) {
        put_u32(&mut self.0[..], offset, value);
    }

    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.0[offset..offset + len]
    }

    pub(crate) fn set_bytes(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn set_word(&mut self, offset: usize, value: u64) {
        put_u64(&mut self.0[..], offset, value);
    }

    /// The bytes to write, with their checksum.
    pub(crate) fn sealed(mut self) -> Box<[u8; PAGE as usize]> {
        let crc = crc32c::crc32c(&self.0[..CRC_AT]);
        put_u32(&mut self.0[..], CRC_AT, crc);
        self.0
    }
}
