//! The forms of tables that the suites go over: every index, with every layout it has.

use std::fmt;

use warpkeep::{Geometry, IndexKind, IndexOptions, KeySpec, Layout, TableOptions};

/// An index, and the contents of its slots if there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Packed,
    InPlace,
    TurboHash,
}

impl Form {
    pub(crate) const ALL: [Form; 3] = [Form::Packed, Form::InPlace, Form::TurboHash];

    /// Whether tables of this form can have such keys.
    pub(crate) fn takes(self, key: KeySpec) -> bool {
        self != Form::InPlace || key.fixed_len().is_some()
    }

    /// A table of this form with such options.
    pub(crate) fn of(self, options: TableOptions) -> TableOptions {
        match self {
            Form::Packed => options.index(IndexOptions::gphash(Layout::Packed)),
            Form::InPlace => options.index(IndexOptions::gphash(Layout::InPlace)),
            Form::TurboHash => options.index(IndexKind::TurboHash),
        }
    }

    /// The same with almost no room, so that it grows soon: a few shards of one bucket, or two buckets of eight.
    pub(crate) fn small(self, options: TableOptions) -> TableOptions {
        let options = self.of(options).capacity(1);
        if self == Form::TurboHash { options.index(IndexOptions::turbohash(4)) } else { options }
    }

    /// The same with as few slots as there can be: one bucket, or two of four.
    pub(crate) fn tiny(self, options: TableOptions) -> TableOptions {
        let options = self.of(options).capacity(1);
        options.index(match options.index {
            IndexOptions::TurboHash { .. } => IndexOptions::turbohash(1),
            IndexOptions::GpHash { layout, .. } => {
                IndexOptions::GpHash { geometry: Geometry::new(1, 8, 4).expect("a geometry"), layout }
            }
        })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Packed => "gphash, packed",
            Form::InPlace => "gphash, in place",
            Form::TurboHash => "turbohash",
        })
    }
}
