//! Opening a store: decides whether the image can be trusted, and what the log adds to it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use warpkeep_image::{Attached, Attachment, Heap, HeapOptions, Image, ImageError, Persist};
use warpkeep_log::{Disk, Log, LogError, LogOptions, Recovery, RecoveryReport};

use crate::last_image::{self, Leave};
use crate::redo::redo;
use crate::{Error, ImagePlace, Items, Keeper, Result, WorkProgress};

/// Where a store keeps its log.
pub struct LogPlace {
    /// The directory.
    pub disk: Arc<dyn Disk>,
    /// How it is written.
    pub options: LogOptions,
}

impl LogPlace {
    /// A log in this directory.
    pub fn new(disk: impl Disk, options: LogOptions) -> LogPlace {
        LogPlace { disk: Arc::new(disk), options }
    }
}

/// How the store was recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// It is new.
    Created,
    /// Its last holder had closed it.
    Clean,
    /// Its last holder died; the image was as it left it.
    Reattached,
    /// The image was lost or out of date; it was rebuilt from checkpoint and log.
    Rebuilt,
}

/// The report of opening a store.
#[derive(Clone, Debug, Serialize)]
pub struct OpenReport {
    /// How the store was recovered.
    pub origin: Origin,
    /// Why the image was rebuilt, if it was.
    pub why_rebuilt: Option<String>,
    /// Commits that had reached the log but not the image, and were finished.
    pub finished_commits: u64,
    /// Items taken from the checkpoint.
    pub loaded: u64,
    /// Changes redone from the log.
    pub redone: u64,
    /// One of the image's state slots was damaged and has been restored.
    pub slot_repaired: bool,
    /// `Power` batches wait for the next checkpoint, because the image may have writes that the log lacks. The
    /// store begins it at once, in the background, if it takes checkpoints by itself;
    /// [`Store::status`](crate::Store::status) reports its progress.
    pub owes_checkpoint: bool,
    /// Why all writes are refused, if they are: the log had no space to be opened with.
    pub only_reads: Option<String>,
    /// The report of the log directory.
    pub log: Option<RecoveryReport>,
    /// How long it took.
    pub seconds: f64,
}

/// Opens a store, or creates it.
///
/// | image | log | what happens |
/// | --- | --- | --- |
/// | intact, not older than the log | any | re-attached; commits left half way are finished from the log |
/// | missing, lost with the machine, or older than the log | exists | rebuilt from checkpoint and log; an error if that may lose `Process` writes, unless it is [allowed](crate::StoreOptions::abandon_image) |
/// | at another path than the last one, which exists | exists | an error that names both, unless it is allowed |
/// | intact | requested but missing | re-attached; logging begins with the first checkpoint |
/// | missing | missing | created |
/// | damaged | any | an error: nothing is discarded without a request |
pub fn open<P: Persist, I: Items<P>>(
    place: &impl ImagePlace<P>,
    log: Option<LogPlace>,
    heap_options: HeapOptions,
    config: &I::Config,
) -> Result<(Keeper<P, I>, OpenReport)> {
    let begun = Instant::now();
    let mut lost = None;
    let attached = match place.open() {
        Ok(attached) => attached,
        // Without a log there is nothing to rebuild from; the error states that.
        Err(error @ ImageError::NotIntact { .. }) if log.is_some() => {
            lost = Some(error.to_string());
            None
        }
        Err(error) => return Err(error.into()),
    };
    let opening = Opening { place, heap_options, config, begun };
    match (attached, log) {
        // Epoch 0: laid out but never taken into use, so it is empty.
        (Some(attached), None) if attached.image.epoch() > 0 => opening.without_log(attached),
        (_, None) => opening.create_without_log(),
        (attached, Some(log)) => opening.with_log(attached, lost, log),
    }
}

struct Opening<'a, Place, Config> {
    place: &'a Place,
    heap_options: HeapOptions,
    config: &'a Config,
    begun: Instant,
}

impl<Place, Config> Opening<'_, Place, Config> {
    fn report(&self, origin: Origin, slot_repaired: bool) -> OpenReport {
        OpenReport {
            origin,
            why_rebuilt: None,
            finished_commits: 0,
            loaded: 0,
            redone: 0,
            slot_repaired,
            owes_checkpoint: false,
            only_reads: None,
            log: None,
            seconds: 0.0,
        }
    }

    fn without_log<P: Persist, I: Items<P>>(
        &self,
        attached: Attached<P>,
    ) -> Result<(Keeper<P, I>, OpenReport)> {
        let mut report = self.report(origin_of(&attached), attached.slot_repaired);
        let image = Arc::new(attached.image);
        check_pending(&image, None)?;
        let (heap, items) = self.walk::<P, I>(&image)?;
        let epoch = image.epoch() + 1;
        image.begin(epoch)?;
        report.seconds = self.begun.elapsed().as_secs_f64();
        Ok((Keeper::new(heap, items, None, epoch), report))
    }

    fn create_without_log<P: Persist, I: Items<P, Config = Config>>(
        &self,
    ) -> Result<(Keeper<P, I>, OpenReport)>
    where
        Place: ImagePlace<P>,
    {
        let image = Arc::new(self.place.create(self.place.new_store_id()?)?);
        let (heap, items) = self.lay_out::<P, I>(&image)?;
        image.begin(1)?;
        let mut report = self.report(Origin::Created, false);
        report.seconds = self.begun.elapsed().as_secs_f64();
        Ok((Keeper::new(heap, items, None, 1), report))
    }

    fn with_log<P: Persist, I: Items<P, Config = Config>>(
        &self,
        attached: Option<Attached<P>>,
        lost: Option<String>,
        log: LogPlace,
    ) -> Result<(Keeper<P, I>, OpenReport)>
    where
        Place: ImagePlace<P>,
    {
        let new_log = !Log::exists(&*log.disk)?;
        if new_log {
            let image = attached.as_ref().map(|attached| &attached.image).filter(|image| image.epoch() > 0);
            if lost.is_some() {
                // An empty log must not replace data that might still be saved.
                return Err(self.place.open().err().map_or(Error::LogNeeded, Error::from));
            }
            if let Some(image) = image {
                check_pending(image, None)?;
            }
            let id = image.map_or_else(|| self.place.new_store_id(), |image| Ok(image.header().store_id))?;
            let epoch = image.map_or(0, Image::epoch);
            drop(Log::create(Arc::clone(&log.disk), id, epoch, log.options.clone())?);
        }
        let mut recovery = Recovery::open(log.disk, log.options)?;
        let replaces = lost.is_some() || attached.as_ref().is_some_and(|attached| attached.image.epoch() > 0);
        let stale = match &attached {
            None => Some(lost.unwrap_or_else(|| "there was no image".into())),
            // Laid out but never taken into use; it may even belong to a store whose log was never created.
            Some(attached) if attached.image.epoch() == 0 => Some("its creation was interrupted".into()),
            Some(attached) => {
                let (image, log) = (attached.image.header().store_id, recovery.store_id());
                if image != log {
                    return Err(Error::Mismatch { image: hex(&image), log: hex(&log) });
                }
                match attached.image.epoch() < recovery.epoch() {
                    true => Some("the image is older than the log".into()),
                    false => {
                        check_pending(&attached.image, Some(recovery.epoch()))?;
                        None
                    }
                }
            }
        };
        self.place.prepare(recovery.image())?;
        let note = self.place.note()?;
        let leave = Leave { abandon: self.place.abandons_last(), adopt: self.place.adopts_copies() };
        last_image::check(&recovery, note.as_ref(), stale.is_some(), leave)?;
        // Written down when the log begins, which is after the image has been taken into use.
        recovery.note_image(note);
        match (attached, stale) {
            (Some(attached), None) => self.reattach(attached, recovery, new_log),
            (attached, why) => {
                if replaces {
                    // The existing image is removed only for a valid replacement: the log has been read, the
                    // checkpoint not yet.
                    recovery.load_checkpoint(|_| Ok::<(), Error>(()))?;
                }
                drop(attached);
                self.rebuild(recovery, why, new_log)
            }
        }
    }

    fn reattach<P: Persist, I: Items<P>>(
        &self,
        attached: Attached<P>,
        recovery: Recovery,
        new_log: bool,
    ) -> Result<(Keeper<P, I>, OpenReport)> {
        let mut report = self.report(origin_of(&attached), attached.slot_repaired);
        let clean = attached.attachment == Attachment::Clean;
        let image = Arc::new(attached.image);
        let pending = image.pending()?;
        let (heap, items) = self.walk::<P, I>(&image)?;
        if !pending.is_empty() {
            // Else a power cut could take a record after half of it has reached the image.
            recovery.settle()?;
        }
        for lsn in pending {
            // A batch that the log does not have was never durable and never acknowledged.
            let Some(record) = recovery.find(lsn)? else { continue };
            for change in record.changes() {
                items.redo(&change)?;
            }
            report.finished_commits += 1;
        }
        // With different epochs, one of them was opened without the other, and the numbers cannot be compared.
        let agrees = clean
            && recovery.closed_cleanly()
            && image.epoch() == recovery.epoch()
            && image.last_lsn() == recovery.last_lsn().bits();
        // After a kill, too, the log may have everything that is in the image.
        let settled = image.epoch() == recovery.epoch() && image.is_settled(recovery.last_lsn());
        let epoch = image.epoch().max(recovery.epoch()) + 1;
        // The image first: if the process dies between the two, the image is the newer one and is re-attached. The
        // other way round it would be taken for an old one, and writes that only it has would be lost.
        image.begin(epoch)?;
        report.log = Some(recovery.report().clone());
        report.owes_checkpoint = new_log || !(agrees || settled);
        let log = recovery.start(epoch, report.owes_checkpoint);
        let keeper = keep(heap, items, log, epoch, &mut report)?;
        report.seconds = self.begun.elapsed().as_secs_f64();
        Ok((keeper, report))
    }

    fn rebuild<P: Persist, I: Items<P, Config = Config>>(
        &self,
        recovery: Recovery,
        why: Option<String>,
        new_log: bool,
    ) -> Result<(Keeper<P, I>, OpenReport)>
    where
        Place: ImagePlace<P>,
    {
        let mut report = self.report(if new_log { Origin::Created } else { Origin::Rebuilt }, false);
        // Until `begin`, the new image is of epoch 0, older than any log: an interrupted rebuild starts over.
        let image = Arc::new(self.place.create(recovery.store_id())?);
        let (heap, items) = self.lay_out::<P, I>(&image)?;
        load(&recovery, &items, &self.place.progress(), &mut report)?;
        let epoch = recovery.epoch() + 1;
        image.begin(epoch)?;
        report.why_rebuilt = why.filter(|_| !new_log);
        report.log = Some(recovery.report().clone());
        let log = recovery.start(epoch, false);
        let keeper = keep(heap, items, log, epoch, &mut report)?;
        report.seconds = self.begun.elapsed().as_secs_f64();
        Ok((keeper, report))
    }

    /// The heap and the index of an image that holds one.
    fn walk<P: Persist, I: Items<P>>(&self, image: &Arc<Image<P>>) -> Result<(Arc<Heap<P>>, I)> {
        let heap = Heap::recover(image, self.heap_options.clone(), |marker| I::mark(image, marker))?;
        let heap = Arc::new(heap);
        let items = I::attach(&heap)?;
        Ok((heap, items))
    }

    /// The heap and an empty index of a new image.
    fn lay_out<P: Persist, I: Items<P, Config = Config>>(
        &self,
        image: &Arc<Image<P>>,
    ) -> Result<(Arc<Heap<P>>, I)> {
        let heap = Heap::recover(image, self.heap_options.clone(), |_| Ok::<(), Error>(()))?;
        let heap = Arc::new(heap);
        let items = I::create(&heap, self.config)?;
        Ok((heap, items))
    }
}

/// A keeper with this log. A store whose log finds no space is opened for reading: the image has all items, and the
/// next opening finds the same state.
fn keep<P: Persist, I: Items<P>>(
    heap: Arc<Heap<P>>,
    items: I,
    log: Result<Log, LogError>,
    epoch: u64,
    report: &mut OpenReport,
) -> Result<Keeper<P, I>> {
    match log {
        Err(full) if full.is_disk_full() && report.origin != Origin::Created => {
            let keeper = Keeper::new(heap, items, None, epoch).only_reads(Arc::new(full));
            report.only_reads = keeper.why_only_reads().map(ToString::to_string);
            Ok(keeper)
        }
        log => Ok(Keeper::new(heap, items, Some(log?), epoch)),
    }
}

/// Brings an empty index to the state of checkpoint and log.
pub(crate) fn load<P: Persist, I: Items<P>>(
    recovery: &Recovery,
    items: &I,
    progress: &WorkProgress,
    report: &mut OpenReport,
) -> Result<()> {
    let expected = recovery.checkpoint().map_or(0, |info| info.changes) + recovery.report().records;
    let mut steps = progress.steps(expected);
    redo(items, |redoer| {
        recovery.load_checkpoint(|change| {
            steps.step();
            // A change that stands alone is a table, not an item.
            report.loaded += u64::from(!I::stands_alone(&change));
            redoer.push(&change)
        })?;
        recovery.redo(|record| {
            for change in record.changes() {
                report.redone += 1;
                steps.step();
                redoer.push(&change)?;
            }
            Ok::<(), Error>(())
        })
    })
}

/// Interrupted commits can be finished, or known never to have been durable, only with the log that the image was
/// last used with: that of its own epoch.
pub(crate) fn check_pending<P: Persist>(image: &Image<P>, log_epoch: Option<u64>) -> Result<()> {
    match log_epoch == Some(image.epoch()) || image.pending()?.is_empty() {
        true => Ok(()),
        false => Err(Error::LogNeeded),
    }
}

fn origin_of<P: Persist>(attached: &Attached<P>) -> Origin {
    match attached.attachment {
        Attachment::Clean => Origin::Clean,
        Attachment::Reattached => Origin::Reattached,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
