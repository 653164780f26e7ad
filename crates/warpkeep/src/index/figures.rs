//! A table's figures for the metrics recorder.

use warpkeep_image::Persist;

use super::{Index, PlacedTable};

/// The load of a GPHash table with as many items as its spec names, whether it was created for them or grew to
/// them.
const CREATION_LOAD: f64 = 0.85;

/// A table's figures that need no look at its slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) items: u64,
    /// Items as a share of its slots.
    pub(crate) load_factor: f64,
    pub(crate) size: Size,
}

/// The size of a table, to count its growths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Items that a table of one piece, which doubles, is for.
    capacity: u64,
    /// Shards that were made larger.
    grown: u64,
}

impl Size {
    /// The number of growths since it had that size.
    pub(crate) fn growths_since(self, before: Size) -> u64 {
        let doubled = match self.capacity > before.capacity {
            true => (self.capacity as f64 / before.capacity.max(1) as f64).log2().round().max(1.0) as u64,
            false => 0,
        };
        doubled + self.grown.saturating_sub(before.grown)
    }
}

impl<P: Persist> Index<P> {
    pub(crate) fn figures(&self) -> Figures {
        let items = self.len();
        match self {
            Index::GpHash(PlacedTable { table, .. }) => {
                let capacity = table.spec().capacity;
                let load_factor = items as f64 * CREATION_LOAD / capacity.max(1) as f64;
                Figures { items, load_factor, size: Size { capacity, grown: 0 } }
            }
            Index::TurboHash(PlacedTable { table, .. }) => Figures {
                items,
                load_factor: items as f64 / table.slots().max(1) as f64,
                size: Size { capacity: 0, grown: table.shards_grown() },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growths_are_counted_once() {
        let size = |capacity, grown| Size { capacity, grown };
        assert_eq!(size(4000, 0).growths_since(size(1000, 0)), 2);
        assert_eq!(size(1100, 0).growths_since(size(1000, 0)), 1);
        assert_eq!(size(500, 0).growths_since(size(1000, 0)), 0, "a table that shrank has not grown");
        assert_eq!(size(0, 7).growths_since(size(0, 4)), 3);
    }
}
