//! Redoes changes with all cores: those of one key in order, those of different keys in parallel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;

use warpkeep_core::{Change, Seed, hash_bytes};
use warpkeep_image::Persist;
use warpkeep_log::ChangeBatch;

use crate::{Error, Items, Result};

/// Changes redone before threads are started: most logs are short, and threads cost time, too.
const ALONE: u64 = 32 * 1024;
/// Changes that a thread is given at a time.
const PARCEL: usize = 512;
/// Parcels that may wait for a thread.
const WAITING: usize = 8;

/// A message to a thread.
enum Work {
    Changes(ChangeBatch),
    /// Report that this point is reached.
    Report(SyncSender<()>),
}

/// Brings items to the state of the changes.
pub(crate) struct Redoer<'scope, 'env, P: Persist, I: Items<P>> {
    items: &'env I,
    scope: &'scope Scope<'scope, 'env>,
    failure: &'env Failure,
    /// Each with the batch being collected for it.
    threads: Vec<(SyncSender<Work>, ChangeBatch)>,
    done: u64,
    alone: u64,
    persist: std::marker::PhantomData<P>,
}

/// An error in a thread.
#[derive(Default)]
pub(crate) struct Failure {
    happened: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Failure {
    fn set(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.happened.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<()> {
        if !self.happened.load(Ordering::Acquire) {
            return Ok(());
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(error.unwrap_or_else(|| {
            Error::Invalid("a thread that redid changes stopped; open the store again".into())
        }))
    }
}

/// Lets `work` redo changes, and returns when all of them are.
pub(crate) fn redo<P: Persist, I: Items<P>, R>(
    items: &I,
    work: impl for<'scope, 'env> FnOnce(&mut Redoer<'scope, 'env, P, I>) -> Result<R>,
) -> Result<R> {
    redo_after(ALONE, items, work)
}

fn redo_after<P: Persist, I: Items<P>, R>(
    alone: u64,
    items: &I,
    work: impl for<'scope, 'env> FnOnce(&mut Redoer<'scope, 'env, P, I>) -> Result<R>,
) -> Result<R> {
    let failure = Failure::default();
    std::thread::scope(|scope| {
        let mut redoer = Redoer {
            items,
            scope,
            failure: &failure,
            threads: Vec::new(),
            done: 0,
            alone,
            persist: std::marker::PhantomData,
        };
        let result = work(&mut redoer)?;
        redoer.wait()?;
        Ok(result)
    })
}

impl<P: Persist, I: Items<P>> Redoer<'_, '_, P, I> {
    /// Redoes a change, now or soon. An error may be that of a change before it.
    pub(crate) fn push(&mut self, change: &Change<'_>) -> Result<()> {
        self.done += 1;
        if self.done == self.alone {
            self.ask_others();
        }
        if self.threads.is_empty() {
            return self.items.redo(change);
        }
        if I::stands_alone(change) {
            self.wait()?;
            return self.items.redo(change);
        }
        let count = self.threads.len() as u64;
        let which = hash_bytes(Seed(u64::from(change.table)), change.key) % count;
        let (_, parcel) = &mut self.threads[which as usize];
        parcel.push(change)?;
        if parcel.len() < PARCEL {
            return Ok(());
        }
        self.send(which as usize);
        self.failure.check()
    }

    fn ask_others(&mut self) {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        if count == 1 {
            return;
        }
        for _ in 0..count {
            let (sender, receiver) = sync_channel(WAITING);
            let (items, failure) = (self.items, self.failure);
            let thread = std::thread::Builder::new().name("warpkeep-redo".into());
            // With fewer threads it takes longer; with none this one does it all.
            if thread.spawn_scoped(self.scope, move || redo_parcels(items, &receiver, failure)).is_ok() {
                self.threads.push((sender, ChangeBatch::new()));
            }
        }
    }

    fn send(&mut self, which: usize) {
        let (sender, parcel) = &mut self.threads[which];
        if sender.send(Work::Changes(std::mem::take(parcel))).is_err() {
            self.failure.happened.store(true, Ordering::Release);
        }
    }

    /// Returns when everything pushed so far is redone.
    fn wait(&mut self) -> Result<()> {
        (0..self.threads.len()).for_each(|which| self.send(which));
        let (sender, receiver) = sync_channel(self.threads.len());
        for (thread, _) in &self.threads {
            if thread.send(Work::Report(sender.clone())).is_err() {
                self.failure.happened.store(true, Ordering::Release);
            }
        }
        drop(sender);
        // Ends when all have reported, or have stopped.
        receiver.iter().for_each(drop);
        self.failure.check()
    }
}

fn redo_parcels<P: Persist, I: Items<P>>(items: &I, work: &Receiver<Work>, failure: &Failure) {
    for work in work {
        match work {
            Work::Report(to) => drop(to.send(())),
            // After a failure no result is used.
            Work::Changes(_) if failure.happened.load(Ordering::Acquire) => {}
            Work::Changes(changes) => {
                if let Err(error) = changes.iter().try_for_each(|change| items.redo(&change)) {
                    failure.set(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warpkeep_core::ChangeKind;
    use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

    use super::*;
    use crate::Tables;

    fn tables(max_chunks: u64) -> Tables<Coherent> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, max_chunks * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let path = std::path::Path::new("memory");
        let image = Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default());
        let image = Arc::new(image.expect("an image"));
        image.begin(1).expect("begun");
        let heap = Heap::recover::<Error>(&image, HeapOptions::default(), |_| Ok(())).expect("a heap");
        Tables::create(&Arc::new(heap), &()).expect("tables")
    }

    /// Every other table has the other index.
    fn creation(id: u32) -> Vec<u8> {
        let index = crate::IndexKind::ALL[id as usize % 2];
        let options = crate::TableOptions::new(warpkeep_core::KeySpec::U64, warpkeep_core::ValueSpec::U64);
        let spec =
            crate::index::Spec::of(&options.index(index), Seed(u64::from(id))).expect("they go together");
        spec.encode(id, 0)
    }

    fn change<'a>(table: u32, kind: ChangeKind, version: u64, key: &'a [u8], value: &'a [u8]) -> Change<'a> {
        Change { table, kind, version, key, value }
    }

    /// Tables are created, filled, rewritten and dropped in one stream: only the order of the stream gives the right end.
    #[test]
    fn changes_of_a_key_keep_their_order_and_tables_theirs() {
        let tables = tables(1000);
        let mut version = 0;
        redo_after(10, &tables, |redoer| {
            for round in 1..=3_u32 {
                version += 1;
                let spec = creation(round);
                redoer.push(&change(0, ChangeKind::Put, version, format!("t{round}").as_bytes(), &spec))?;
                for pass in 0..4_u64 {
                    for key in 0..5000_u64 {
                        version += 1;
                        let delete = pass == 2 && key % 3 == 0;
                        let kind = if delete { ChangeKind::Delete } else { ChangeKind::Put };
                        let value = (u64::from(round) << 32 | pass).to_le_bytes();
                        let value = if delete { &[][..] } else { &value };
                        if pass < 3 || key % 3 != 0 {
                            redoer.push(&change(round, kind, version, &key.to_le_bytes(), value))?;
                        }
                    }
                }
                if round == 2 {
                    version += 1;
                    redoer.push(&change(0, ChangeKind::Delete, version, b"t2", &[]))?;
                }
            }
            Ok(())
        })
        .expect("redone");
        assert!(tables.get("t2").is_none());
        for round in [1_u64, 3] {
            let table = &tables.get(&format!("t{round}")).expect("it was created").table;
            assert_eq!(table.len(), 5000 - 5000_u64.div_ceil(3));
            for key in 0..5000_u64 {
                let value = table.get(&key.to_le_bytes(), |value| value.to_vec());
                assert_eq!(value, (key % 3 != 0).then(|| (round << 32 | 3).to_le_bytes().to_vec()), "{key}");
            }
        }
    }

    #[test]
    fn an_error_in_a_thread_is_told() {
        let tables = tables(100);
        let told = redo_after(1, &tables, |redoer| {
            let spec = creation(1);
            let create = Change { table: 0, kind: ChangeKind::Put, version: 1, key: b"t", value: &spec };
            redoer.push(&create)?;
            for key in 0..200_000_u64 {
                let change = Change {
                    table: 1,
                    kind: ChangeKind::Put,
                    version: 2,
                    key: &key.to_le_bytes(),
                    value: &key.to_le_bytes(),
                };
                redoer.push(&change)?;
            }
            Ok(())
        });
        let error = told.expect_err("the image is too small");
        assert!(matches!(error, Error::Image(warpkeep_image::ImageError::OutOfSpace { .. })), "{error}");
    }

    /// A checkpoint may list a table whose creation, and that of an earlier one with the same name, is still in the
    /// log.
    #[test]
    fn a_name_that_was_used_again_stays_with_the_newer_table() {
        let tables = tables(100);
        let put = |table, version, key: &[u8], value: &[u8]| {
            tables.redo(&change(table, ChangeKind::Put, version, key, value)).expect("redone");
        };
        put(0, 120, b"rows", &creation(12));
        put(12, 125, &[1; 8], &[7; 8]);
        // From here on the log, from where the checkpoint began.
        put(0, 90, b"rows", &creation(9));
        put(9, 95, &[1; 8], &[9; 8]);
        tables.redo(&change(0, ChangeKind::Delete, 100, b"rows", &[])).expect("redone");
        put(0, 120, b"rows", &creation(12));
        put(12, 121, &[1; 8], &[6; 8]);
        let named = tables.get("rows").expect("it was not dropped");
        assert_eq!(named.id, 12);
        assert_eq!(named.table.get(&[1; 8], |value| value.to_vec()), Some(vec![7; 8]));
        assert!(tables.next_id() > 12);
    }
}
