//! Going through all items of a table.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkeep_core::Change;
use warpkeep_image::{Coherent, Persist};
use warpkeep_record::{Budget, DamagedItem, Progress, ScanPosition};

use crate::{Error, Result, Table};

/// The work of one call to [`Table::maintain`].
const SLICE: Budget = Budget::items(1 << 15);
/// How long to wait for another thread that is growing the table.
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

impl<P: Persist> Table<P> {
    /// Returns the items in no particular order, while other threads read and write, until there are no more or
    /// `each` breaks. Each is checked before it is returned, and the first damaged one ends the scan with
    /// [`Error::DamagedItem`](crate::Error::DamagedItem); [`Table::scan_checked`] continues past it.
    ///
    /// An item that is there throughout is returned exactly once, or at least once if the table grows meanwhile,
    /// which it does not if there are no writers and it has [grown before](Table::maintain); one that changes is
    /// returned in its old or new state. The table may be written to from within.
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
                damaged =
                    Some(Error::DamagedItem { table: self.name().to_owned(), item: Box::new(item.clone()) });
                ControlFlow::Break(())
            }
        })?;
        damaged.map_or(Ok(()), Err)
    }

    /// The same, with damaged items returned as damaged: for callers that want everything that is left. An item is
    /// damaged if its slot and its record do not belong together, if the table cannot have its lengths, or if its
    /// checksum is wrong. Items in slots, and tables made before there were checksums, have none.
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
        let call = self.lease.enter()?;
        let each = |item: Result<&Change<'_>, &DamagedItem>| {
            let item =
                item.map(|change| Item { key: change.key, value: change.value, version: change.version });
            match each(item) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(()),
            }
        };
        // The only error is that `each` has had enough.
        let _ = call.named.table.scan_checked(self.id(), each);
        Ok(())
    }

    /// Returns the items of a few buckets, from a position on, and advances the position; returns whether there is
    /// more.
    ///
    /// An item that is there throughout is returned at least once if the table is [held still](Table::hold_still) all the
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
        let call = self.lease.enter()?;
        let each = |change: &Change<'_>| {
            each(Item { key: change.key, value: change.value, version: change.version });
            Ok::<(), std::convert::Infallible>(())
        };
        match call.named.table.scan_some(self.id(), position, each) {
            Ok(more) => Ok(more),
            Err(never) => match never {},
        }
    }

    /// Does a little of the growth that is due or in progress, which is otherwise done in the background; returns
    /// whether there may be more to do. If not, the table stays as it is until the next write.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(10))?;
    /// (0..1000).try_for_each(|key| table.put(key, key, Durability::Process).map(|_| ()))?;
    ///
    /// while table.maintain()? {}
    /// assert!(!table.stats()?.is_growing());
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn maintain(&self) -> Result<bool> {
        let call = self.lease.enter()?;
        if call.keeper.is_read_only() {
            // Items do not move there, so a scan meets every item once.
            return Ok(false);
        }
        match call.named.maintain(SLICE) {
            Ok(Progress::Working) => Ok(true),
            Ok(Progress::Busy) => {
                std::thread::sleep(SOMEBODY_ELSE);
                Ok(true)
            }
            // Without room to grow the table stays as it is; the next writer gets the error.
            Ok(Progress::Idle | Progress::Stuck) | Err(_) => Ok(false),
        }
    }

    /// Keeps items in place, except for growth, as long as the returned guard is kept: a scan in parts misses none.
    /// Meanwhile the table grows a little earlier than it would.
    pub fn hold_still(&self) -> Still<P> {
        if let Ok(call) = self.lease.enter() {
            call.named.table.hold_still();
        }
        Still(self.clone())
    }
}

/// A table that [holds still](Table::hold_still).
pub struct Still<P: Persist = Coherent>(Table<P>);

impl<P: Persist> Drop for Still<P> {
    fn drop(&mut self) {
        // Otherwise there is nothing left that could move, or it is the parent's.
        if let Ok(call) = self.0.lease.enter() {
            call.named.table.let_move();
        }
    }
}

impl<P: Persist> std::fmt::Debug for Still<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Still").field(&self.0.name()).finish()
    }
}
