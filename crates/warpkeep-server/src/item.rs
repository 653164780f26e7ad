//! The stored form of an item: a small header, and the bytes that clients see.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 6 | when it expires, in milliseconds since 1970, little-endian; 0 is never |
//! | 6 | 1 | kind: 0, a string of bytes |
//! | 7 | 1 | marks: 1 is stale, 2 means that a client was asked to renew it |
//! | 8 | 4 | the client's flags, little-endian |
//!
//! The item's version in the table is its CAS value.

/// Bytes before the value.
pub(crate) const HEAD: usize = 12;
/// The longest value.
pub(crate) const MAX_VALUE: usize = warpkeep_core::ValueSpec::MAX as usize - HEAD;
/// The longest key.
pub(crate) const MAX_KEY: usize = warpkeep_core::KeySpec::MAX_VARIABLE as usize;
/// The last moment that can be stored, thousands of years away.
pub(crate) const LAST: u64 = (1 << 48) - 1;

/// The header of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// In milliseconds since 1970; 0 is never.
    pub(crate) expires: u64,
    pub(crate) marks: u8,
    pub(crate) flags: u32,
}

impl Head {
    /// Stale: readable while a client renews it.
    pub(crate) const STALE: u8 = 1;
    /// A client was asked to renew it.
    pub(crate) const WON: u8 = 2;

    /// As it is stored.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.expires.min(LAST).to_le_bytes());
        bytes[7] = self.marks;
        bytes[8..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// Decodes a stored header. `None` if this server did not store it, or a newer one did.
    #[inline]
    pub(crate) fn from_bytes(stored: &[u8]) -> Option<Head> {
        let (head, _) = stored.split_first_chunk::<HEAD>()?;
        let first =
            u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
        if head[6] != 0 {
            return None;
        }
        let flags = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        Some(Head { expires: first & LAST, marks: head[7], flags })
    }

    /// Whether it is to be answered as absent.
    #[inline]
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires != 0 && self.expires <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip() {
        for head in [
            Head::default(),
            Head { expires: 1, marks: Head::STALE, flags: u32::MAX },
            Head { expires: LAST, marks: Head::WON, flags: 7 },
        ] {
            assert_eq!(Head::from_bytes(&head.to_bytes()), Some(head));
        }
        assert_eq!(
            Head::from_bytes(&Head { expires: LAST + 1, ..Head::default() }.to_bytes()),
            Some(Head { expires: LAST, ..Head::default() })
        );
        assert_eq!(Head::from_bytes(&[0; HEAD - 1]), None);
        let mut newer = Head::default().to_bytes();
        newer[6] = 1;
        assert_eq!(Head::from_bytes(&newer), None);
    }

    #[test]
    fn an_item_expires_at_its_moment() {
        let head = Head { expires: 1000, ..Head::default() };
        assert!(!head.is_expired(999) && head.is_expired(1000));
        assert!(!Head::default().is_expired(u64::MAX));
    }
}
