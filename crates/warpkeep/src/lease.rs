//! The state shared by the handles of a table, and how a store revokes it when it is closed or the table is
//! dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_image::{Owner, Persist};

use crate::checkpointer::Checkpointer;
use crate::closable::{Closable, Entered, Read};
use crate::index::Spec;
use crate::keeper::check_process;
use crate::maintenance::Maintenance;
use crate::tables::{NamedTable, Tables};
use crate::{Error, Keeper, Result};

/// Why handles no longer work.
const CLOSED: u8 = 1;
const DROPPED: u8 = 2;

/// Attempts to revoke a lease before that is left to the background thread.
const ATTEMPTS: usize = 100;

/// The state shared by all handles of a table: valid while the table exists and its store is open, and the reason
/// why not afterwards.
pub(crate) struct Lease<P: Persist> {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) spec: Spec,
    pub(crate) owner: Owner,
    leased: Closable<Leased<P>>,
}

/// The objects that a call on a table uses.
pub(crate) struct Leased<P: Persist> {
    pub(crate) keeper: Arc<Keeper<P, Tables<P>>>,
    pub(crate) named: Arc<NamedTable<P>>,
}

impl<P: Persist> Lease<P> {
    fn new(keeper: &Arc<Keeper<P, Tables<P>>>, named: Arc<NamedTable<P>>) -> Lease<P> {
        let (id, name, spec, owner) = (named.id, named.name.clone(), named.spec, named.owner);
        let epochs = keeper.heap().epochs().clone();
        let leased = Closable::new(Leased { keeper: Arc::clone(keeper), named }, epochs);
        Lease { id, name, spec, owner, leased }
    }

    /// Begins a call: the store is not closed, and the table's space not freed, before it ends.
    pub(crate) fn enter(&self) -> Result<Entered<'_, Leased<P>>> {
        check_process(&self.owner)?;
        let entered = self.leased.enter().map_err(|code| self.ended(code))?;
        if entered.named.is_dropped() { Err(self.ended(DROPPED)) } else { Ok(entered) }
    }

    /// The same for a lookup.
    #[inline]
    pub(crate) fn read(&self) -> Result<Read<'_, Leased<P>>> {
        check_process(&self.owner)?;
        let leased = self.leased.read().map_err(|code| self.ended(code))?;
        if leased.named.is_dropped() { Err(self.ended(DROPPED)) } else { Ok(leased) }
    }

    #[cold]
    fn ended(&self, code: u8) -> Error {
        match code {
            DROPPED => Error::NoTable { name: self.name.clone() },
            _ => Error::Closed { table: self.name.clone() },
        }
    }
}

/// The leases of a store's tables.
pub(crate) struct Leases<P: Persist>(Mutex<Lists<P>>);

struct Lists<P: Persist> {
    /// By the number of the table.
    open: BTreeMap<u32, Arc<Lease<P>>>,
    /// The leases of dropped tables that were in use.
    ending: Vec<Arc<Lease<P>>>,
}

impl<P: Persist> Leases<P> {
    fn lock(&self) -> MutexGuard<'_, Lists<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease of a table.
    fn of(&self, keeper: &Arc<Keeper<P, Tables<P>>>, named: Arc<NamedTable<P>>) -> Arc<Lease<P>> {
        let mut lists = self.lock();
        let lease = lists.open.entry(named.id).or_insert_with(|| Arc::new(Lease::new(keeper, named)));
        Arc::clone(lease)
    }

    /// Ends the lease of a dropped table: its handles report that there is no such table.
    fn end(&self, id: u32) {
        let Some(lease) = self.lock().open.remove(&id) else { return };
        // Without handles there is no wait.
        let Err(lease) = Arc::try_unwrap(lease) else { return };
        lease.leased.end(DROPPED);
        self.lock().ending.push(Arc::clone(&lease));
        for _ in 0..ATTEMPTS {
            if self.release_dropped() {
                return;
            }
            lease.leased.advance();
            std::thread::yield_now();
        }
    }

    /// Releases dropped tables that are no longer in use; returns whether there are no others.
    pub(crate) fn release_dropped(&self) -> bool {
        let mut lists = self.lock();
        lists.ending.retain(|lease| lease.leased.try_take().is_none());
        lists.ending.is_empty()
    }

    /// Ends all leases, and waits for the calls in progress.
    fn close(&self) {
        let lists = std::mem::replace(&mut *self.lock(), Lists { open: BTreeMap::new(), ending: Vec::new() });
        let all: Vec<Arc<Lease<P>>> = lists.open.into_values().chain(lists.ending).collect();
        let used: Vec<Arc<Lease<P>>> =
            all.into_iter().filter_map(|lease| Arc::try_unwrap(lease).err()).collect();
        used.iter().for_each(|lease| lease.leased.end(CLOSED));
        used.iter().for_each(|lease| drop(lease.leased.take()));
    }

    fn is_entered_here(&self) -> bool {
        let lists = self.lock();
        lists.open.values().chain(&lists.ending).any(|lease| lease.leased.is_entered_here())
    }
}

/// The state shared by a store and the handles of its tables. The store stays open until the last of them is
/// dropped, or until it is closed.
pub(crate) struct Shared<P: Persist> {
    pub(crate) leases: Arc<Leases<P>>,
    threads: Mutex<Threads>,
    owner: Owner,
}

/// The background threads.
#[derive(Default)]
pub(crate) struct Threads {
    pub(crate) maintenance: Option<Maintenance>,
    pub(crate) checkpointer: Option<Checkpointer>,
}

impl<P: Persist> Shared<P> {
    pub(crate) fn new(owner: Owner) -> Shared<P> {
        let lists = Lists { open: BTreeMap::new(), ending: Vec::new() };
        Shared { leases: Arc::new(Leases(Mutex::new(lists))), threads: Mutex::default(), owner }
    }

    pub(crate) fn set_threads(&self, threads: Threads) {
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
    }

    /// The lease for handles of a table.
    pub(crate) fn lease(
        &self,
        keeper: &Arc<Keeper<P, Tables<P>>>,
        named: Arc<NamedTable<P>>,
    ) -> Arc<Lease<P>> {
        self.leases.of(keeper, named)
    }

    /// Revokes the lease of the table with this number.
    pub(crate) fn end_lease(&self, id: u32) {
        self.leases.end(id);
    }

    /// Whether this thread is in a call on one of the tables: it would wait for itself.
    pub(crate) fn is_entered_here(&self) -> bool {
        self.leases.is_entered_here()
    }

    /// Revokes all leases, and ends the threads.
    pub(crate) fn close(&self) {
        self.stop();
        self.leases.close();
    }

    fn stop(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(maintenance) = threads.maintenance {
            maintenance.stop();
        }
        if let Some(checkpointer) = threads.checkpointer {
            checkpointer.stop();
        }
    }
}

impl<P: Persist> Drop for Shared<P> {
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.stop();
            return;
        }
        // A child made by `fork` has none of the threads, and shares files, locks and a device with its parent:
        // none of it is ended or released here.
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(threads));
        std::mem::forget(Arc::clone(&self.leases));
    }
}
