//! Going through all items of a table.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use warpkeep_core::Change;
use warpkeep_image::{Coherent, Persist};
use warpkeep_record::{DamagedItem, Progress};

use crate::index::ScanPosition;
use crate::tables::NamedTable;
use crate::{Result, Table};

/// Buckets that a call to [`Table::maintain`] drains.
const SLICE: u64 = 4096;
/// How long to wait for somebody else who sees to a table's growth.
const SOMEBODY_ELSE: Duration = Duration::from_millis(1);

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
    /// breaks. Each is checked before it is given out, and the first that is damaged ends the scan with
    /// [`Error::DamagedItem`](crate::Error::DamagedItem); [`Table::scan_checked`] goes on behind it.
    ///
    /// An item that is there throughout is given out exactly once, or at least once if the table grows meanwhile, which it
    /// does not if nobody writes and it has [grown before](Table::maintain); one that changes is given out as it was or as
    /// it is. The table may be written to from within.
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
        let mut damaged = None;
        self.scan_checked(|item| match item {
            Ok(item) => each(item),
            Err(item) => {
                damaged = Some(self.named.damaged(item));
                ControlFlow::Break(())
            }
        })?;
        damaged.map_or(Ok(()), Err)
    }

    /// The same, with what is damaged given out in its place: for those who want all that there is left. An item is
    /// damaged if its slot and its record do not belong together, if its lengths are none that the table takes, or if its
    /// checksum is wrong. Items that lie in slots, and tables that were made before there were checksums, have none.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::fixed(20)?))?;
    /// table.put(7, &[1; 20], Durability::Process)?;
    ///
    /// let (mut good, mut lost) = (0, Vec::new());
    /// table.scan_checked(|item| {
    ///     match item {
    ///         Ok(_) => good += 1,
    ///         Err(damaged) => lost.push(damaged.to_string()),
    ///     }
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!((good, lost.len()), (1, 0));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn scan_checked(
        &self,
        mut each: impl FnMut(Result<Item<'_>, &DamagedItem>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.named.check_there()?;
        let each = |item: Result<&Change<'_>, &DamagedItem>| {
            let item =
                item.map(|change| Item { key: change.key, value: change.value, version: change.version });
            match each(item) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(()),
            }
        };
        // The only error is that `each` has had enough.
        let _ = self.named.table.scan_checked(self.named.id, each);
        Ok(())
    }

    /// Gives out the items of a few buckets, from a position on, and moves the position; whether there is more.
    ///
    /// An item that is there throughout is given out at least once if the table [held still](Table::hold_still) all the
    /// while. When the table grows, the scan starts over by itself.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, ScanPosition, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64))?;
    /// (0..10).try_for_each(|key| table.put(key, key, Durability::Process).map(|_| ()))?;
    ///
    /// let (mut position, mut items) = (ScanPosition::default(), 0);
    /// while table.scan_some(&mut position, |_| items += 1)? {}
    /// assert_eq!(items, 10);
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn scan_some(&self, position: &mut ScanPosition, mut each: impl FnMut(Item<'_>)) -> Result<bool> {
        self.named.check_there()?;
        let each = |change: &Change<'_>| {
            each(Item { key: change.key, value: change.value, version: change.version });
            Ok::<(), std::convert::Infallible>(())
        };
        match self.named.table.scan_some(self.named.id, position, each) {
            Ok(more) => Ok(more),
            Err(never) => match never {},
        }
    }

    /// Does a little of the growth that is due or under way, which is otherwise done in the background; whether there may
    /// be more to do. When there is not, the table stays as it is until somebody writes.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(10))?;
    /// (0..1000).try_for_each(|key| table.put(key, key, Durability::Process).map(|_| ()))?;
    ///
    /// while table.maintain()? {}
    /// assert!(!table.stats().is_growing());
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn maintain(&self) -> Result<bool> {
        self.named.check_there()?;
        if self.store.is_read_only() {
            // Nothing moves there, so a scan meets every item once.
            return Ok(false);
        }
        match self.named.maintain(SLICE) {
            Ok(Progress::Working) => Ok(true),
            Ok(Progress::Busy) => {
                std::thread::sleep(SOMEBODY_ELSE);
                Ok(true)
            }
            // Without room to grow the table stays as it is; whoever writes next is told.
            Ok(Progress::Idle | Progress::Stuck) | Err(_) => Ok(false),
        }
    }

    /// Keeps items where they are, but for growth, for as long as what is given is kept: a scan in parts misses none.
    /// Meanwhile the table grows a little earlier than it would.
    pub fn hold_still(&self) -> Still<P> {
        self.named.table.hold_still();
        Still(Arc::clone(&self.named))
    }
}

/// A table that [holds still](Table::hold_still).
pub struct Still<P: Persist = Coherent>(Arc<NamedTable<P>>);

impl<P: Persist> Drop for Still<P> {
    fn drop(&mut self) {
        if !self.0.owner.is_here() {
            // The table is the parent's; nothing of it is freed here.
            std::mem::forget(Arc::clone(&self.0));
            return;
        }
        self.0.table.let_move();
    }
}

impl<P: Persist> std::fmt::Debug for Still<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Still").field(&self.0.name).finish()
    }
}
