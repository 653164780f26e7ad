//! State that changes rarely: the holder of the image, its length, whether it was closed.

use crate::layout::PAGE;

const MAGIC: [u8; 8] = *b"WKSTATE1";
const CRC_AT: usize = 252;
/// Bytes of a slot that are written; the rest of its page is zero.
pub(crate) const STATE_BYTES: usize = 256;

/// A file on a running machine. Bytes in memory can be trusted only if it is the same file and the machine has not
/// been restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Changes with every start of the machine.
    pub boot_id: [u8; 16],
    /// The device the file lies on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
    /// The creation time of the file, in nanoseconds since 1970; 0 if unknown. The number of a removed file is soon
    /// reused for another, such as the copy that replaces it.
    pub born: u64,
}

/// The last user of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastUse {
    /// It was closed, and not left.
    pub clean: bool,
    /// The process that had it.
    pub holder: crate::Holder,
    /// When it was taken into use, in seconds since 1970.
    pub attached: u64,
}

/// The content of a state slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) sequence: u64,
    pub(crate) clean: bool,
    pub(crate) epoch: u64,
    pub(crate) chunks: u64,
    pub(crate) identity: Identity,
    pub(crate) holder_pid: u64,
    pub(crate) holder_start: u64,
    pub(crate) attached: u64,
    pub(crate) last_lsn: u64,
}

impl State {
    pub(crate) fn encode(&self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(8, self.sequence);
        put(16, u64::from(self.clean));
        put(24, self.epoch);
        put(32, self.chunks);
        put(56, self.identity.device);
        put(64, self.identity.inode);
        put(72, self.holder_pid);
        put(80, self.holder_start);
        put(88, self.attached);
        put(96, self.last_lsn);
        put(104, self.identity.born);
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[40..56].copy_from_slice(&self.identity.boot_id);
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The state in a slot, or `None` if the slot is torn or damaged.
    pub(crate) fn decode(page: &[u8; PAGE as usize]) -> Option<State> {
        let get = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(page[CRC_AT..STATE_BYTES].try_into().expect("four bytes"));
        let whole = page[0..8] == MAGIC
            && crc32c::crc32c(&page[..CRC_AT]) == crc
            && page[STATE_BYTES..].iter().all(|&b| b == 0);
        if !whole {
            return None;
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&page[40..56]);
        Some(State {
            sequence: get(8),
            clean: get(16) == 1,
            epoch: get(24),
            chunks: get(32),
            identity: Identity { boot_id, device: get(56), inode: get(64), born: get(104) },
            holder_pid: get(72),
            holder_start: get(80),
            attached: get(88),
            last_lsn: get(96),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_flip() {
        let state =
            State { sequence: 4, clean: true, epoch: 9, chunks: 11, last_lsn: 77, ..State::default() };
        let mut page = [0; PAGE as usize];
        page[..STATE_BYTES].copy_from_slice(&state.encode());
        assert_eq!(State::decode(&page), Some(state));
        for at in 0..page.len() {
            page[at] ^= 0x10;
            assert_eq!(State::decode(&page), None, "byte {at}");
            page[at] ^= 0x10;
        }
    }
}
