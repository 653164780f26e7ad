//! The parameters of a new table, and their form in the log.

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_gphash::{Geometry, Layout};

use super::{IndexKind, IndexOptions};
use crate::{Error, Result, TableOptions};

/// The parameters of a new table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) key: KeySpec,
    pub(crate) value: ValueSpec,
    pub(crate) capacity: u64,
    pub(crate) merge: MergeRule,
    pub(crate) seed: Seed,
    pub(crate) form: Form,
    /// Whether every get is checked.
    pub(crate) check_gets: bool,
}

/// Parameters specific to one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    GpHash { geometry: Geometry, layout: Layout },
    TurboHash { shards: u32 },
}

/// The byte of the form's word that identifies the index. In a geometry it is zero, as it always was before there
/// was another index.
const KIND_SHIFT: u32 = 56;

impl Form {
    pub(crate) fn kind(self) -> IndexKind {
        match self {
            Form::GpHash { .. } => IndexKind::GpHash,
            Form::TurboHash { .. } => IndexKind::TurboHash,
        }
    }

    fn to_word(self) -> u64 {
        let word = match self {
            Form::GpHash { geometry, .. } => geometry.to_word(),
            Form::TurboHash { shards } => u64::from(shards),
        };
        word | u64::from(self.kind().code()) << KIND_SHIFT
    }

    fn layout_code(self) -> u8 {
        match self {
            Form::GpHash { layout, .. } => layout.code(),
            Form::TurboHash { .. } => 0,
        }
    }

    fn from_word(word: u64, layout: u8) -> Option<Form> {
        let rest = word & ((1 << KIND_SHIFT) - 1);
        match IndexKind::from_code((word >> KIND_SHIFT) as u8)? {
            IndexKind::GpHash => Some(Form::GpHash {
                geometry: Geometry::from_word(rest)?,
                layout: Layout::from_code(layout)?,
            }),
            IndexKind::TurboHash => Some(Form::TurboHash { shards: u32::try_from(rest).ok()? }),
        }
    }
}

impl Spec {
    /// The spec of a table with these options. Options of another index than the requested one are an error,
    /// because they would have no effect.
    pub(crate) fn of(options: &TableOptions, seed: Seed) -> Result<Spec> {
        let TableOptions { key, value, capacity, merge, index, check_gets } = *options;
        let form = match index {
            IndexOptions::GpHash { geometry, layout } => {
                Form::GpHash { geometry, layout: layout.unwrap_or_else(|| Layout::for_items(key, value)) }
            }
            IndexOptions::TurboHash { shards } => Form::TurboHash { shards },
        };
        // If keys have eight bytes and values at most eight, both lie in slots, which have no checksums.
        let in_slots = value.fixed_len().is_some_and(|len| len <= 8)
            && match form {
                Form::GpHash { layout, .. } => layout == Layout::InPlace,
                Form::TurboHash { .. } => key.fixed_len() == Some(8),
            };
        if check_gets && in_slots {
            return Err(Error::Invalid(
                "gets of this table cannot be checked: values of up to 8 bytes lie in slots, without checksums; \
                 create it as a gphash table with the layout 'packed', or without checked gets"
                    .into(),
            ));
        }
        Ok(Spec { key, value, capacity, merge, seed, form, check_gets })
    }

    /// As the log keeps it, under the number of the table.
    pub(crate) fn encode(&self, id: u32, items: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(56);
        bytes.extend_from_slice(&u64::from(id).to_le_bytes());
        bytes.extend_from_slice(&self.key.to_bytes());
        bytes.extend_from_slice(&self.value.to_bytes());
        bytes.extend_from_slice(&self.form.to_word().to_le_bytes());
        // The current number of items is a better estimate of the needed room than the original capacity.
        bytes.extend_from_slice(&self.capacity.max(items).to_le_bytes());
        bytes.extend_from_slice(&self.seed.0.to_le_bytes());
        bytes.extend_from_slice(&[
            self.form.layout_code(),
            self.merge.code(),
            u8::from(self.check_gets),
            0,
            0,
            0,
            0,
            0,
        ]);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(u32, Spec)> {
        let bad = || {
            Error::Invalid(
                "the log describes a table this program does not know; open it with a newer one".into(),
            )
        };
        let words: [[u8; 8]; 7] = std::array::from_fn(|word| {
            bytes.get(8 * word..8 * word + 8).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0xff; 8])
        });
        let number = |word: usize| u64::from_le_bytes(words[word]);
        let spec = Spec {
            key: KeySpec::from_bytes(words[1]).map_err(|_| bad())?,
            value: ValueSpec::from_bytes(words[2]).map_err(|_| bad())?,
            capacity: number(4),
            seed: Seed(number(5)),
            form: Form::from_word(number(3), words[6][0]).ok_or_else(bad)?,
            merge: MergeRule::from_code(words[6][1]).ok_or_else(bad)?,
            check_gets: match words[6][2] {
                0 => false,
                1 => true,
                _ => return Err(bad()),
            },
        };
        Ok((u32::try_from(number(0)).map_err(|_| bad())?, spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(form: Form) -> Spec {
        let (key, value) = (KeySpec::U64, ValueSpec::U64);
        Spec { key, value, capacity: 5, merge: MergeRule::AddU64, seed: Seed(9), form, check_gets: true }
    }

    #[test]
    fn what_the_log_keeps_comes_back() {
        let gphash = Form::GpHash { geometry: Geometry::default(), layout: Layout::InPlace };
        for form in [gphash, Form::TurboHash { shards: 1 << 20 }] {
            let (id, found) = Spec::decode(&spec(form).encode(3, 7)).expect("just encoded");
            assert_eq!((id, found.form, found.capacity, found.seed), (3, form, 7, Seed(9)));
            assert!(found.check_gets);
            assert_eq!(
                (found.key, found.value, found.merge),
                (KeySpec::U64, ValueSpec::U64, MergeRule::AddU64)
            );
        }
    }

    /// The number of shards must not look like a geometry to a program that knows no other index.
    #[test]
    fn no_number_of_shards_is_a_geometry() {
        let shards = u32::from_le_bytes([2, 2, 8, 0]);
        assert!(Geometry::from_word(u64::from(shards)).is_some(), "it would be one");
        let bytes = spec(Form::TurboHash { shards }).encode(1, 0);
        let word = u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
        assert_eq!(Geometry::from_word(word), None);
    }

    #[test]
    fn an_index_of_tomorrow_is_refused() {
        let mut bytes = spec(Form::TurboHash { shards: 1 }).encode(1, 0);
        bytes[31] = 2;
        assert!(Spec::decode(&bytes).is_err_and(|error| error.to_string().contains("newer")));
    }
}
