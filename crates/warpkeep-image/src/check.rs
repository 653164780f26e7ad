//! Self-checking words: a payload with a checksum of itself and its position, stored as one atomic word.
//!
//! A page of such words needs no checksum of its own, so each can be changed by a single 8-byte store. CRCs
//! are used, rather than a hash, because they find every damaged byte with certainty.

use crc::{CRC_16_IBM_3740, CRC_24_OPENPGP, Crc};

const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);
const CRC24: Crc<u32> = Crc::<u32>::new(&CRC_24_OPENPGP);

fn place_and_payload(place: u64, payload: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&place.to_le_bytes());
    bytes[8..].copy_from_slice(&payload.to_le_bytes());
    bytes
}

/// `payload` (48 bits) under a 16-bit check over it and `place`.
pub(crate) fn seal48(place: u64, payload: u64) -> u64 {
    debug_assert!(payload >> 48 == 0);
    payload | u64::from(CRC16.checksum(&place_and_payload(place, payload))) << 48
}

/// The payload of a word made by [`seal48`] for the same place; `None` if it was not.
pub(crate) fn unseal48(place: u64, word: u64) -> Option<u64> {
    let payload = word & ((1 << 48) - 1);
    (seal48(place, payload) == word).then_some(payload)
}

/// `payload` (40 bits) under a 24-bit check over it and `place`.
pub(crate) fn seal40(place: u64, payload: u64) -> u64 {
    debug_assert!(payload >> 40 == 0);
    payload | u64::from(CRC24.checksum(&place_and_payload(place, payload))) << 40
}

/// The payload of a word made by [`seal40`] for the same place; `None` if it was not.
pub(crate) fn unseal40(place: u64, word: u64) -> Option<u64> {
    let payload = word & ((1 << 40) - 1);
    (seal40(place, payload) == word).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_and_every_moved_word_is_found() {
        for (place, payload) in [(0, 1), (7, 0x1234_5678_9abc), (63, (1 << 40) - 1)] {
            for byte in 0..8 {
                for flip in 1..=255_u64 {
                    let damage = flip << (8 * byte);
                    assert_eq!(unseal48(place, seal48(place, payload) ^ damage), None);
                    let payload = payload & ((1 << 40) - 1);
                    assert_eq!(unseal40(place, seal40(place, payload) ^ damage), None);
                }
            }
            assert_eq!(unseal48(place, seal48(place, payload)), Some(payload));
            assert_eq!(unseal48(place + 1, seal48(place, payload)), None);
        }
    }
}
