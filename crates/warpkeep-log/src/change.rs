//! Changes as bytes.

use warpkeep_core::{Change, ChangeKind};

use crate::error::LogError;
use crate::layout::{u32_at, u64_at};

/// Bytes of a change before its key.
pub(crate) const HEADER: usize = 24;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Appends a change. Nothing is appended if it cannot be encoded.
pub(crate) fn encode(change: &Change<'_>, out: &mut Vec<u8>) -> Result<(), LogError> {
    let key_len = length("a key", change.key)?;
    let value_len = length("a value", change.value)?;
    let kind = match change.kind {
        ChangeKind::Put => PUT,
        ChangeKind::Delete if change.value.is_empty() => DELETE,
        ChangeKind::Delete => return Err(LogError::BadChange { what: "a delete with a value" }),
    };
    out.reserve(HEADER + change.key.len() + change.value.len() + 8);
    out.extend_from_slice(&change.table.to_le_bytes());
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&change.version.to_le_bytes());
    out.extend_from_slice(&key_len.to_le_bytes());
    out.extend_from_slice(&value_len.to_le_bytes());
    out.extend_from_slice(change.key);
    out.extend_from_slice(change.value);
    let padding = (change.key.len() + change.value.len()).wrapping_neg() % 8;
    out.extend_from_slice(&[0; 8][..padding]);
    Ok(())
}

fn length(what: &'static str, bytes: &[u8]) -> Result<u32, LogError> {
    u32::try_from(bytes.len()).map_err(|_| LogError::TooLong { what, len: bytes.len() as u64 })
}

/// The same, to exactly as many bytes as it takes. The caller has checked the lengths, and that a delete has no value.
#[inline]
pub(crate) fn encode_at(table: u32, kind: ChangeKind, version: u64, key: &[u8], value: &[u8], to: &mut [u8]) {
    let kind = match kind {
        ChangeKind::Put => PUT,
        ChangeKind::Delete => DELETE,
    };
    let (header, rest) = to.split_at_mut(HEADER);
    header[..4].copy_from_slice(&table.to_le_bytes());
    header[4..8].copy_from_slice(&[kind, 0, 0, 0]);
    header[8..16].copy_from_slice(&version.to_le_bytes());
    header[16..20].copy_from_slice(&(key.len() as u32).to_le_bytes());
    header[20..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    rest[..key.len()].copy_from_slice(key);
    rest[key.len()..][..value.len()].copy_from_slice(value);
    rest[key.len() + value.len()..].fill(0);
}

/// Takes the first change off `bytes`; `None` if that is not one.
fn decode<'a>(bytes: &mut &'a [u8]) -> Option<Change<'a>> {
    let all: &'a [u8] = bytes;
    if all.len() < HEADER || all[5..8] != [0; 3] {
        return None;
    }
    let key_len = u32_at(all, 16) as usize;
    let value_len = u32_at(all, 20) as usize;
    let kind = match all[4] {
        PUT => ChangeKind::Put,
        DELETE if value_len == 0 => ChangeKind::Delete,
        _ => return None,
    };
    let value_at = HEADER.checked_add(key_len)?;
    let end = value_at.checked_add(value_len)?;
    let padded = end.checked_next_multiple_of(8)?;
    if all.len() < padded || all[end..padded].iter().any(|&byte| byte != 0) {
        return None;
    }
    *bytes = &all[padded..];
    Some(Change {
        table: u32_at(all, 0),
        kind,
        version: u64_at(all, 8),
        key: &all[HEADER..value_at],
        value: &all[value_at..end],
    })
}

/// The changes of a batch, a record or a block, in the order they were written.
///
/// The bytes were checked before this was made, so iterating cannot fail.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Changes<'a> {
    /// Over bytes that are known to be `count` whole changes.
    pub(crate) fn trusted(bytes: &'a [u8], count: usize) -> Changes<'a> {
        Changes { rest: bytes, left: count }
    }

    /// Over `bytes` if they are exactly `count` changes.
    pub(crate) fn checked(bytes: &'a [u8], count: u64) -> Option<Changes<'a>> {
        let mut rest = bytes;
        for _ in 0..count {
            decode(&mut rest)?;
        }
        rest.is_empty().then_some(Changes { rest: bytes, left: usize::try_from(count).ok()? })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        self.left = self.left.checked_sub(1)?;
        decode(&mut self.rest)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Changes<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned() -> impl Strategy<Value = (u32, bool, u64, Vec<u8>, Vec<u8>)> {
        (
            any::<u32>(),
            any::<bool>(),
            any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..40),
            prop::collection::vec(any::<u8>(), 0..80),
        )
    }

    fn borrow(owned: &(u32, bool, u64, Vec<u8>, Vec<u8>)) -> Change<'_> {
        let (table, put, version, key, value) = owned;
        let (kind, value) = if *put { (ChangeKind::Put, &value[..]) } else { (ChangeKind::Delete, &[][..]) };
        Change { table: *table, kind, version: *version, key, value }
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(all in prop::collection::vec(owned(), 0..20)) {
            let mut bytes = Vec::new();
            for one in &all {
                encode(&borrow(one), &mut bytes).unwrap();
                prop_assert_eq!(bytes.len() % 8, 0);
            }
            let changes = Changes::checked(&bytes, all.len() as u64).unwrap();
            prop_assert_eq!(changes.len(), all.len());
            prop_assert!(changes.eq(all.iter().map(borrow)));
            prop_assert!(Changes::checked(&bytes, all.len() as u64 + 1).is_none());
        }

        #[test]
        fn any_bytes_are_changes_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u64..9) {
            if let Some(changes) = Changes::checked(&bytes, count) {
                prop_assert_eq!(changes.count() as u64, count);
            }
        }

        #[test]
        fn lengths_cannot_reach_outside(one in owned(), key_len in any::<u32>(), value_len in any::<u32>()) {
            let mut bytes = Vec::new();
            encode(&borrow(&one), &mut bytes).unwrap();
            bytes[16..20].copy_from_slice(&key_len.to_le_bytes());
            bytes[20..24].copy_from_slice(&value_len.to_le_bytes());
            if let Some(mut changes) = Changes::checked(&bytes, 1) {
                let change = changes.next().unwrap();
                prop_assert!(change.key.len() + change.value.len() + HEADER <= bytes.len());
            }
        }
    }

    #[test]
    fn a_delete_has_no_value() {
        let change = Change { table: 1, kind: ChangeKind::Delete, version: 1, key: b"k", value: b"v" };
        let mut bytes = Vec::new();
        assert!(matches!(encode(&change, &mut bytes), Err(LogError::BadChange { .. })));
        assert!(bytes.is_empty());
    }
}
