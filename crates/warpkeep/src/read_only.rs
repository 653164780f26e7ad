//! Stores that are only read: not a byte of image or log is written.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpkeep_device::DeviceChoice;
use warpkeep_image::{
    Access, Attachment, Coherent, Holder, Image, ImageError, ImageHold, OpenOptions, wait_until_gone,
};
use warpkeep_log::{ReadOnlyDisk, Recovery};

use crate::look::{Look, LookedAt};
use crate::opening::{check_pending, hex, load};
use crate::{Error, Items, Keeper, OpenReport, Origin, Result, Store, StoreOptions};

/// The locks that keep writers out while a store is read.
pub(crate) struct Held {
    _image: Option<ImageHold>,
    _log: Option<Arc<ReadOnlyDisk>>,
}

impl Store<Coherent> {
    /// Opens a store for reading, without writing a byte to its image or its log: on a file system that is mounted
    /// read-only, or as a user with read permission only. Other readers can open it at the same time; writers are
    /// refused meanwhile. While a writer has it open, this is an error that names the writer.
    ///
    /// Changes that an opening for writing makes to the files are made in memory: interrupted commits are finished from the
    /// log, and where the image is missing, lost with the machine or older than the log, one is built from checkpoint and
    /// log. Every write is refused with [`Error::ReadOnly`]; [`Store::backup`] works.
    ///
    /// ```
    /// use warpkeep::{Durability, Error, Store, StoreOptions};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let directory = directory.path();
    /// let store = Store::open(directory)?;
    /// store.create_typed::<u64, u64>("t", 10)?.put(&1, &2, Durability::Process)?;
    /// assert!(Store::open_read_only(directory, StoreOptions::default()).is_err(), "it is open for writing");
    /// store.close()?;
    ///
    /// let store = Store::open_read_only(directory, StoreOptions::default())?;
    /// let table = store.typed::<u64, u64>("t")?;
    /// assert_eq!(table.get(&1)?, Some(2));
    /// assert!(matches!(table.put(&1, &3, Durability::Process), Err(Error::ReadOnly)));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    #[allow(clippy::needless_pass_by_value, reason = "called as the other ways to open a store are")]
    pub fn open_read_only(directory: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        let begun = Instant::now();
        if options.device != DeviceChoice::Cpu {
            let what =
                "a store that is only read runs on the CPU; leave the device out, or open it for writing";
            return Err(Error::Invalid(what.into()));
        }
        let directory = directory.as_ref();
        let mut look = Look::hold(directory, &options)?;
        if let Some(damage) = look.log_damage.take() {
            return Err(damage);
        }
        wait_for_holder(&options.image_path(directory), options.open.wait_for_holder)?;
        let mut why = "there was no image".to_owned();
        let image = match look.image() {
            Err(Error::Image(error @ ImageError::NotIntact { .. })) if look.log.is_some() => {
                why = error.to_string();
                None
            }
            image => image?,
        };
        let image = match (image, &look.log) {
            (Some(image), Some(log)) if is_older(&image, log)? => {
                why = "the image is older than the log".to_owned();
                None
            }
            (image, _) => image,
        };
        let mut report = OpenReport {
            origin: Origin::Rebuilt,
            why_rebuilt: None,
            finished_commits: 0,
            loaded: 0,
            redone: 0,
            slot_repaired: false,
            owes_checkpoint: false,
            only_reads: None,
            log: look.log.as_ref().map(|log| log.report().clone()),
            seconds: 0.0,
        };
        let image = match (image, &look.log) {
            (Some(image), log) => {
                finish_pending(&image, log.as_ref(), &mut report)?;
                image
            }
            (None, Some(log)) => {
                let image = look.image_in_memory(log, &options, |tables| {
                    load(log, tables, &options.progress, &mut report)
                })?;
                report.why_rebuilt = Some(why);
                image
            }
            (None, None) => return Err(Error::NoStore { directory: directory.to_path_buf() }),
        };
        let (tables, heap) = image.into_parts();
        tables.use_threads(options.threads);
        let (held, log) = look.into_locks();
        let keeper = Keeper::read_only(heap, tables, Held { _image: held, _log: log });
        report.seconds = begun.elapsed().as_secs_f64();
        Ok(Store::without_threads(keeper, report))
    }
}

/// Waits for a killed writer to end: its memory may still be in use when its locks are free.
fn wait_for_holder(image: &Path, timeout: Duration) -> Result<()> {
    let looking = OpenOptions { adopt: true, ..OpenOptions::default() };
    // Faults of the image are reported elsewhere.
    let Ok(opened) = Image::open(image, Coherent, Access::ReadOnly, &looking) else { return Ok(()) };
    let used = opened.image.last_use();
    if used.clean || used.holder == Holder::current()? || wait_until_gone(&used.holder, timeout)? {
        return Ok(());
    }
    let holder = format!("{}, which is still ending", used.holder);
    Err(ImageError::Held { path: image.to_path_buf(), holder }.into())
}

fn is_older(image: &LookedAt, log: &Recovery) -> Result<bool> {
    let (ours, theirs) = (image.image().header().store_id, log.store_id());
    match ours == theirs {
        true => Ok(image.image().epoch() < log.epoch()),
        false => Err(Error::Mismatch { image: hex(&ours), log: hex(&theirs) }),
    }
}

/// Finishes the last writer's interrupted commits in the private view.
fn finish_pending(image: &LookedAt, log: Option<&Recovery>, report: &mut OpenReport) -> Result<()> {
    check_pending(image.image(), log.map(Recovery::epoch))?;
    for lsn in image.image().pending()? {
        let Some(record) = log.map(|log| log.find(lsn)).transpose()?.flatten() else { continue };
        for change in record.changes() {
            image.tables.redo(&change)?;
        }
        report.finished_commits += 1;
    }
    report.slot_repaired = image.slot_torn;
    report.origin = match image.attachment {
        Attachment::Clean => Origin::Clean,
        Attachment::Reattached => Origin::Reattached,
    };
    Ok(())
}
