//! Going through all items of a table.

use std::ops::ControlFlow;

use warpkeep_core::Change;
use warpkeep_image::Persist;

use crate::{Result, Table};

/// An item, as a scan gives it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Grows with every change of the key.
    pub version: u64,
}

impl<P: Persist> Table<'_, P> {
    /// Gives out the items in no particular order, while others read and write, until there are no more or `each`
    /// breaks.
    ///
    /// An item that is there throughout is given out exactly once, or at least once if the table grows meanwhile; one
    /// that changes is given out as it was or as it is. The table may be written to from within.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64))?;
    /// (0..10).try_for_each(|key| table.put(key, key * 2, Durability::Process).map(|_| ()))?;
    ///
    /// let mut sum = 0;
    /// table.scan(|item| {
    ///     sum += u64::from_le_bytes(item.value.try_into().expect("values have 8 bytes"));
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(sum, 90);
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn scan(&self, mut each: impl FnMut(Item<'_>) -> ControlFlow<()>) -> Result<()> {
        self.named.check_there()?;
        let each = |change: &Change<'_>| match each(Item {
            key: change.key,
            value: change.value,
            version: change.version,
        }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(()),
        };
        // The only error is that `each` has had enough.
        let _ = self.named.table.scan(self.named.id, each);
        Ok(())
    }
}
