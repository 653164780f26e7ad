//! Compaction on request: shrinks tables, moves records together, and frees chunks of the image.

use serde::Serialize;
use warpkeep_image::{Clear, Persist};

use crate::{Result, Store, Table};

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Tables that became smaller.
    pub shrunk: u64,
    /// Records that were moved.
    pub moved: u64,
    /// Bytes of the image that were free before.
    pub free_before: u64,
    /// Bytes of the image that are free now, for any table.
    pub free_after: u64,
}

impl<P: Persist> Table<P> {
    /// Halves the table repeatedly, as long as its items then take no more than three quarters of it; returns
    /// whether it became smaller. Other threads read and write meanwhile. It grows again when it has to.
    pub fn shrink(&self) -> Result<bool> {
        let call = self.lease.enter()?;
        call.keeper.check_writable()?;
        call.named.table.shrink()
    }
}

impl<P: Persist> Store<P> {
    /// Shrinks tables that have become too large for their items, and moves records together, while other threads
    /// read and write. Later writes use the freed space; the file itself does not become shorter.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let sessions = TableOptions::new(KeySpec::U64, ValueSpec::fixed(512)?).capacity(100_000);
    /// let sessions = store.create_table("sessions", sessions)?;
    /// for key in 0..20_000 {
    ///     sessions.put(key, &[1; 512], Durability::Process)?;
    /// }
    /// for key in (0..20_000).filter(|key| key % 200 != 0) {
    ///     sessions.delete(key, Durability::Process)?;
    /// }
    /// let done = store.compact()?;
    /// assert!(done.moved > 0 && done.free_after > done.free_before);
    /// assert_eq!(sessions.len(), 100);
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn compact(&self) -> Result<Compacted> {
        self.keeper.check_process()?;
        self.keeper.check_writable()?;
        let heap = self.keeper.heap();
        let free = || {
            let usage = heap.usage();
            usage.free_chunks * usage.chunk_size
        };
        // Replaced and removed records are freed once no reader can see them, which depends on the current readers.
        let settle = || -> Result<()> {
            (0..1000).for_each(|_| heap.reclaim());
            while heap.free_postponed(usize::MAX)? > 0 {}
            Ok(())
        };
        settle()?;
        let mut done = Compacted { free_before: free(), ..Compacted::default() };
        let tables = self.keeper.items().list();
        for named in &tables {
            done.shrunk += u64::from(named.table.shrink()?);
        }
        let clearing = heap.begin_clearing(Clear::Surplus);
        for named in &tables {
            done.moved += named.table.defragment(&clearing)?;
        }
        // Slabs that are empty by the end give their chunks back while they are still closed.
        settle()?;
        drop(clearing);
        done.free_after = free();
        Ok(done)
    }
}
