//! The state slots of an image, as section 2.2 of docs/format.md describes them.

use warpkeep_image::{Coherent, Holder, Image};

const SLOTS: [u64; 2] = [4096, 8192];
const MAGIC: &[u8; 8] = b"WKSTATE1";
const CRC_AT: usize = 252;

/// What the newer whole slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) sequence: u64,
    pub(crate) is_clean: bool,
    pub(crate) holder: Holder,
    /// Seconds since 1970.
    pub(crate) attached: u64,
}

impl State {
    /// `None` if neither slot is whole.
    pub(crate) fn read(image: &Image<Coherent>) -> Option<State> {
        let slot = |at: u64| {
            let mut bytes = [0; 256];
            image.read(at, &mut bytes);
            State::decode(&bytes)
        };
        SLOTS.into_iter().filter_map(slot).max_by_key(|state| state.sequence)
    }

    fn decode(bytes: &[u8; 256]) -> Option<State> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(bytes[CRC_AT..].try_into().expect("four bytes"));
        (bytes.starts_with(MAGIC) && crc32c::crc32c(&bytes[..CRC_AT]) == crc).then(|| State {
            sequence: word(8),
            is_clean: word(16) == 1,
            holder: Holder { pid: word(72), start_time: word(80) },
            attached: word(88),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpkeep_image::{Access, CreateOptions, OpenOptions};

    #[test]
    fn agrees_with_what_an_image_writes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        let image = Image::create(&path, Coherent, &CreateOptions::default()).expect("room");
        image.begin(7).expect("begun");
        let look = || {
            let opened =
                Image::open(&path, Coherent, Access::ReadOnly, &OpenOptions::default()).expect("an image");
            State::read(&opened.image).expect("a whole slot")
        };
        let state = look();
        assert_eq!(state.holder, Holder::current().expect("there is /proc"));
        assert!(!state.is_clean && state.attached > 1_600_000_000, "{state:?}");
        image.close(0).expect("closed");
        let closed = look();
        assert!(closed.is_clean && closed.sequence > state.sequence, "{closed:?}");
    }
}
