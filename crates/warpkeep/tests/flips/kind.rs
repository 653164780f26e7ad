//! The kinds of tables that are damaged: every index, with every form its slots and records have.

use warpkeep::{IndexOptions, KeySpec, Layout, TableOptions, ValueSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Packed,
    Tiles,
    Cells,
    Variable,
    InPlace,
    InPlaceKeys,
    InPlaceRecords,
    TurboValues,
    TurboRecords,
    TurboTiles,
    /// With every get checked.
    Checked,
    /// The same with the other index.
    TurboChecked,
}

impl Kind {
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Packed,
        Kind::Tiles,
        Kind::Cells,
        Kind::Variable,
        Kind::InPlace,
        Kind::InPlaceKeys,
        Kind::InPlaceRecords,
        Kind::TurboValues,
        Kind::TurboRecords,
        Kind::TurboTiles,
        Kind::Checked,
        Kind::TurboChecked,
    ];

    /// Those that a device runs, or reads.
    pub(crate) const FOR_DEVICES: [Kind; 7] = [
        Kind::Packed,
        Kind::Tiles,
        Kind::Cells,
        Kind::Variable,
        Kind::InPlace,
        Kind::InPlaceKeys,
        Kind::InPlaceRecords,
    ];

    fn specs(self) -> (KeySpec, ValueSpec) {
        let key = |len: u32| KeySpec::fixed(len).expect("a length");
        let keys_to = |max: u32| KeySpec::variable(max).expect("a length");
        let value = |len: u32| ValueSpec::fixed(len).expect("a length");
        let values_to = |max: u32| ValueSpec::variable(max).expect("a length");
        match self {
            Kind::Packed => (KeySpec::U64, value(16)),
            Kind::Tiles | Kind::TurboTiles => (KeySpec::U64, value(128)),
            Kind::Cells => (keys_to(30), value(16)),
            Kind::Variable | Kind::TurboRecords | Kind::Checked | Kind::TurboChecked => {
                (keys_to(30), values_to(200))
            }
            Kind::InPlace | Kind::TurboValues => (KeySpec::U64, ValueSpec::U64),
            Kind::InPlaceKeys => (key(20), ValueSpec::U64),
            Kind::InPlaceRecords => (KeySpec::U64, value(40)),
        }
    }

    /// A small table of this kind, so that it grows soon.
    pub(crate) fn options(self) -> TableOptions {
        let (key, value) = self.specs();
        let options = TableOptions::new(key, value).capacity(20);
        match self {
            Kind::Packed | Kind::Tiles | Kind::Cells | Kind::Variable => {
                options.index(IndexOptions::gphash(Layout::Packed))
            }
            Kind::InPlace | Kind::InPlaceKeys | Kind::InPlaceRecords => {
                options.index(IndexOptions::gphash(Layout::InPlace))
            }
            Kind::TurboValues | Kind::TurboRecords | Kind::TurboTiles => {
                options.index(IndexOptions::turbohash(3))
            }
            Kind::Checked => options.check_gets(true),
            Kind::TurboChecked => options.index(IndexOptions::turbohash(3)).check_gets(true),
        }
    }

    /// Whether its records have checksums: values that lie in slots have none.
    pub(crate) fn has_checksums(self) -> bool {
        !matches!(self, Kind::InPlace | Kind::InPlaceKeys | Kind::TurboValues)
    }

    /// Whether a get gives out no value that was never written.
    pub(crate) fn checks_gets(self) -> bool {
        matches!(self, Kind::Checked | Kind::TurboChecked)
    }

    /// Key number `number`.
    pub(crate) fn key(self, number: u64) -> Vec<u8> {
        let (key, _) = self.specs();
        match key.fixed_len() {
            Some(len) => number.to_le_bytes().into_iter().chain([7; 12]).take(len).collect(),
            None => format!("key {}", number * 77).into_bytes(),
        }
    }

    /// The value of a key after this number of changes.
    pub(crate) fn value(self, number: u64, changes: u64) -> Vec<u8> {
        let (_, value) = self.specs();
        let len = value.fixed_len().unwrap_or((number * 31 % 200) as usize);
        let word = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ changes;
        word.to_le_bytes().into_iter().cycle().take(len).collect()
    }
}
