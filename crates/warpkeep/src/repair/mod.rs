//! Repairs a damaged image from checkpoint and log.
//!
//! Damaged items are removed from their tables first; then their logged state is restored. How far that goes
//! depends on how the store was left:
//!
//! - *Closed, or left when everything was in the log.* The log is complete: every difference in the image is
//!   damage, in slots that have no checksum, too, and the image is brought to the state of the log. Nothing is
//!   lost.
//! - *Left otherwise.* The image may have `Process` writes that the log lacks. A key that the log has and the image
//!   lacks was deleted since, or its slot is damaged: it is restored only if a damaged item was found that can have
//!   been its own. The restored value is the newest in the log, which may be older than the lost one.
//! - *Without a log.* Damaged items are lost, and listed.

mod marker;
mod plan;
mod report;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use warpkeep_image::{Attachment, Coherent, Heap, HeapOptions, Image};
use warpkeep_log::{Log, OsDisk, Recovery};
use warpkeep_record::DamagedItem;

pub(crate) use marker::Marker;
use marker::{Findings, Noted};
pub use report::{LostItem, RepairReport, RestoredItem, TableRepair};

use crate::look::{Look, LookedAt};
use crate::opening::hex;
use crate::{Error, ImageFile, ImagePlace, Items, Result, Store, StoreOptions, Tables};
use plan::Plan;

/// The extent and mode of a repair.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Only this table; by default all.
    pub table: Option<String>,
    /// Only report what would be done.
    pub dry_run: bool,
}

/// Repairs damaged items of a store from its checkpoint and log, as far as possible, and lists the lost ones.
/// `progress` receives the items examined so far and the estimated total.
///
/// While it works there is a file `REPAIRING` in the store's directory: after an interruption, the store cannot be
/// opened before it has been repaired again. A store whose header, catalogue or levels are damaged cannot be
/// repaired so; the error gives the alternative.
///
/// ```
/// use warpkeep::{RepairOptions, Store, StoreOptions, repair};
/// # let directory = tempfile::tempdir().unwrap();
/// Store::open(directory.path())?.close()?;
/// let report = repair(directory.path(), &StoreOptions::default(), &RepairOptions::default(), &mut |_, _| ())?;
/// assert_eq!((report.damaged, report.lost), (0, 0));
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub fn repair(
    directory: &Path,
    options: &StoreOptions,
    what: &RepairOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let begun = Instant::now();
    let mut report = match what.dry_run {
        true => look(directory, options, what, progress)?,
        false => change(directory, options, what, progress)?,
    };
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// Plans a repair.
fn look(
    directory: &Path,
    options: &StoreOptions,
    what: &RepairOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let mut look = Look::hold(directory, options)?;
    if let Some(error) = look.log_damage.take() {
        return Err(error);
    }
    let Some(found) = look.salvaged_image(what.table.as_deref())? else { return Err(no_image()) };
    let findings = findings(&found, look.log.as_ref())?;
    let mut report =
        Plan::new(&found.tables, &findings, what)?.carry_out(look.log.as_ref(), false, progress)?;
    report.dry_run = true;
    Ok(report)
}

/// The damage to an image, and whether the log is complete.
fn findings(found: &LookedAt, log: Option<&Recovery>) -> Result<Findings> {
    if let Some(log) = log {
        check_goes_with(found.image(), log)?;
    }
    let exact = log.is_some_and(|log| agree(found.image(), found.attachment, log));
    Ok(Findings { exact, damaged: found.damaged.iter().map(Noted::of).collect() })
}

fn change(
    directory: &Path,
    options: &StoreOptions,
    what: &RepairOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let examined = examine(directory, options, what)?;
    change_as_found(directory, options, what, examined, progress)
}

/// The findings, and the epoch of the image that they are about.
struct Examined {
    findings: Findings,
    epoch: u64,
}

/// Refuses a store that cannot be repaired, before anything is changed.
fn examine(directory: &Path, options: &StoreOptions, what: &RepairOptions) -> Result<Examined> {
    let mut look = Look::hold(directory, options)?;
    if let Some(error) = look.log_damage.take() {
        return Err(error);
    }
    let found = look.salvaged_image(what.table.as_deref())?.ok_or_else(no_image)?;
    if what.table.as_ref().is_some_and(|name| found.tables.get(name).is_none()) {
        return Err(Error::NoTable { name: what.table.clone().unwrap_or_default() });
    }
    Ok(Examined { findings: findings(&found, look.log.as_ref())?, epoch: found.image().epoch() })
}

fn change_as_found(
    directory: &Path,
    options: &StoreOptions,
    what: &RepairOptions,
    examined: Examined,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let Examined { mut findings, epoch } = examined;
    let disk = match options.log_path(directory).filter(|path| path.is_dir()) {
        None => None,
        Some(path) => Some(Arc::new(OsDisk::open(path)?)),
    };
    let log = match disk {
        Some(disk) if Log::exists(&*disk)? => Some(Recovery::open(disk, options.log.clone())?),
        _ => None,
    };
    let place =
        ImageFile { open: options.open.clone(), ..ImageFile::new(options.image_path(directory), Coherent) };
    let attached = place.open()?.filter(|attached| attached.image.epoch() > 0).ok_or_else(no_image)?;
    // Each opening for writing begins an epoch. Between examining and locking the store, another process may have
    // written to it.
    if attached.image.epoch() != epoch {
        return Err(Error::Invalid(
            "the store was opened by another process while it was examined; run the repair again".into(),
        ));
    }
    if let Some(log) = &log {
        check_goes_with(&attached.image, log)?;
    }
    let marker = Marker::set(directory, &mut findings)?;
    let report = in_place(attached.image, options, log.as_ref(), &findings, what, progress)?;
    drop(log);
    marker.remove()?;
    // A checkpoint brings log and image into agreement again.
    let store = Store::open_with(directory, StoreOptions { device: Default::default(), ..options.clone() })?;
    match store.checkpoint() {
        Ok(()) | Err(Error::NoLog) => {}
        // Another table is damaged, too, and was not to be repaired.
        Err(Error::DamagedItem { .. }) if what.table.is_some() => {}
        Err(error) => return Err(error),
    }
    store.close().or_else(|error| match error {
        Error::DamagedItem { .. } if what.table.is_some() => Ok(()),
        other => Err(other),
    })?;
    Ok(report)
}

/// Repairs the image in its file.
fn in_place(
    image: Image<Coherent>,
    options: &StoreOptions,
    log: Option<&Recovery>,
    findings: &Findings,
    what: &RepairOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let image = Arc::new(image);
    let pending = image.pending()?;
    if log.is_none() && !pending.is_empty() {
        return Err(Error::LogNeeded);
    }
    // From here on it is in use, under an epoch above the log's, so that it is never taken for an older one.
    let epoch = image.epoch().max(log.map_or(0, Recovery::epoch)) + 1;
    let last_lsn = image.last_lsn();
    let (heap, tables, _) = salvage(&image, options.heap.clone(), what.table.as_deref())?;
    if let Some(log) = log.filter(|_| !pending.is_empty()) {
        log.settle()?;
        for lsn in pending {
            let Some(record) = log.find(lsn)? else { continue };
            record.changes().try_for_each(|change| tables.redo(&change))?;
        }
    }
    image.begin(epoch)?;
    let report = Plan::new(&tables, findings, what)?.carry_out(log, true, progress)?;
    drop((tables, heap));
    let in_use = || Error::Invalid("the image is still in use; run the repair again".into());
    Arc::into_inner(image).ok_or_else(in_use)?.close(last_lsn)?;
    Ok(report)
}

/// The heap and the tables of an image, and the damaged items that were removed from them, with the numbers of
/// their tables.
pub(crate) type Salvaged = (Arc<Heap<Coherent>>, Tables<Coherent>, Vec<(u32, DamagedItem)>);

/// The heap and the tables of an image, without the damaged items, in all of them or in one.
pub(crate) fn salvage(
    image: &Arc<Image<Coherent>>,
    options: HeapOptions,
    only: Option<&str>,
) -> Result<Salvaged> {
    let mut damaged = Vec::new();
    let heap = Heap::recover(image, options, |marker| {
        damaged = Tables::mark_salvaging(image, marker, only)?;
        Ok::<(), Error>(())
    })?;
    let heap = Arc::new(heap);
    let tables = Tables::attach(&heap)?;
    damaged.extend(tables.take_damaged(only));
    Ok((heap, tables, damaged))
}

/// Whether the log has everything that the image has: they were closed together, or the last holder left when
/// everything was in the log.
fn agree(image: &Image<Coherent>, attachment: Attachment, log: &Recovery) -> bool {
    let closed =
        attachment == Attachment::Clean && log.closed_cleanly() && image.last_lsn() == log.last_lsn().bits();
    let settled = attachment == Attachment::Reattached && image.is_settled(log.last_lsn());
    image.epoch() == log.epoch() && (closed || settled)
}

fn check_goes_with(image: &Image<Coherent>, log: &Recovery) -> Result<()> {
    let (ours, theirs) = (image.header().store_id, log.store_id());
    if ours != theirs {
        return Err(Error::Mismatch { image: hex(&ours), log: hex(&theirs) });
    }
    match image.epoch() < log.epoch() {
        false => Ok(()),
        true => Err(Error::Invalid(
            "the image is older than the log; open the store, which rebuilds it, instead of repairing it"
                .into(),
        )),
    }
}

fn no_image() -> Error {
    Error::Invalid("there is no image to repair; open the store, which makes one".into())
}

#[cfg(test)]
mod tests {
    use warpkeep_core::Durability;

    use super::*;

    #[test]
    fn a_store_that_was_opened_since_it_was_examined_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (directory, options, what) =
            (directory.path(), StoreOptions::default(), RepairOptions::default());
        let open = || Store::open(directory).expect("a store");
        let store = open();
        store
            .create_typed::<u64, u64>("t", 10)
            .expect("a table")
            .put(&1, &11, Durability::Power)
            .expect("put");
        store.close().expect("closed");

        let examined = examine(directory, &options, &what).expect("it can be repaired");
        assert!(examined.findings.exact, "the log has everything");
        let store = open();
        store.typed::<u64, u64>("t").expect("a table").put(&2, &22, Durability::Process).expect("put");
        drop(store);
        let error = change_as_found(directory, &options, &what, examined, &mut |_, _| ())
            .expect_err("the findings are about an earlier state");
        assert!(error.to_string().contains("run the repair again"), "{error}");

        repair(directory, &options, &what, &mut |_, _| ()).expect("repaired");
        let store = open();
        let table = store.typed::<u64, u64>("t").expect("a table");
        assert_eq!((table.get(&1).expect("read"), table.get(&2).expect("read")), (Some(11), Some(22)));
    }
}
