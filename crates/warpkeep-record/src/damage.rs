//! Damage to an item of a table.

use std::fmt;

/// The damage to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Its slot leads to where no record can be.
    NoRecord,
    /// Its lengths are none that it can have.
    Lengths {
        /// Bytes of its key.
        key: u64,
        /// Bytes of its value.
        value: u64,
    },
    /// Its record does not hold a valid key.
    NoKey,
    /// Its record belongs to another key than its slot, or it lies in a slot that a search for its key does not
    /// reach.
    Misplaced,
    /// Another slot leads to its record, too.
    Shared,
    /// The commit word of a bucket is one that no table stores: damage to the word, and not to an item.
    CommitWord,
    /// Its bytes differ from the written ones.
    Checksum {
        /// The checksum that it has.
        stored: u64,
        /// The one that its bytes have.
        computed: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NoRecord => f.write_str("its slot leads to where no record can be"),
            Damage::Lengths { key, value } => {
                write!(f, "a key of {key} bytes and a value of {value}, which the table does not take")
            }
            Damage::NoKey => f.write_str("its record has no key"),
            Damage::Misplaced => f.write_str("its slot and its record do not belong together"),
            Damage::Shared => f.write_str("another slot leads to its record, too"),
            Damage::CommitWord => f.write_str("the commit word of the bucket is none that a table stores"),
            Damage::Checksum { stored, computed } => {
                write!(f, "its checksum is {stored:016x}, its bytes have {computed:016x}")
            }
        }
    }
}

/// An item that is damaged, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedItem {
    /// The bytes read as its key. Empty if nothing can be read.
    pub key: Vec<u8>,
    /// Whether a search for that key reaches this slot: then it is most probably the item's key, and the rest is
    /// damaged.
    pub key_belongs: bool,
    /// Where its bucket lies in the image.
    pub bucket: u64,
    /// Its slot in the bucket.
    pub slot: usize,
    /// The offset of its record from its slot, if it has one.
    pub record: Option<u64>,
    /// The damage.
    pub damage: Damage,
}

impl fmt::Display for DamagedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doubt = if self.key_belongs { "" } else { " (perhaps damaged itself)" };
        write!(
            f,
            "the key {}{doubt} in slot {} of the bucket at {}",
            Shown(&self.key),
            self.slot,
            self.bucket
        )?;
        if let Some(record) = self.record {
            write!(f, ", record at {record}")?;
        }
        write!(f, ": {}", self.damage)
    }
}

/// A key as people read it: text where it is some, otherwise its bytes.
struct Shown<'k>(&'k [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 64;
        let shown = &self.0[..self.0.len().min(MOST)];
        let more = if self.0.len() > MOST { "..." } else { "" };
        match std::str::from_utf8(shown) {
            Ok(text) if !text.is_empty() && text.chars().all(|c| !c.is_control()) => {
                write!(f, "{text:?}{more}")
            }
            _ => {
                f.write_str("0x")?;
                shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(more)
            }
        }
    }
}
