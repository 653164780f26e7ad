//! A check of everything a store has, which changes nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use warpkeep_core::Change;
use warpkeep_image::{Attachment, Coherent, HeapUsage, ImageError};
use warpkeep_log::{CheckpointInfo, Recovery, RecoveryReport};
use warpkeep_record::DamagedItem;

use crate::look::{LogContents, Look, LookedAt};
use crate::opening::hex;
use crate::progress::Steps;
use crate::repair::Marker;
use crate::tables::NamedTable;
use crate::{Error, Result, StoreOptions, TablePeek};

/// More problems of a table are counted and not listed.
const LISTED: usize = 16;

/// The results of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Whether there is no damage.
    pub sound: bool,
    /// The image, if there is one that could be read.
    pub image: Option<ImageCheck>,
    /// The log, if there is one that could be read.
    pub log: Option<LogCheck>,
    /// The tables, by name.
    pub tables: Vec<TableCheck>,
    /// Faults of the store as a whole.
    pub problems: Vec<String>,
    /// Facts that are not faults, but worth knowing.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// The results of a check of the image.
#[derive(Clone, Debug, Serialize)]
pub struct ImageCheck {
    /// The store it belongs to, in hexadecimal.
    pub store_id: String,
    /// How often it was opened.
    pub epoch: u64,
    /// Whether it was closed, rather than left.
    pub closed_cleanly: bool,
    /// Its length.
    pub bytes: u64,
    /// The use of its space.
    pub usage: HeapUsage,
}

/// The results of a check of the log directory.
#[derive(Clone, Debug, Serialize)]
pub struct LogCheck {
    /// The store it belongs to, in hexadecimal.
    pub store_id: String,
    /// How often it was opened.
    pub epoch: u64,
    /// Whether it was closed, rather than left.
    pub closed_cleanly: bool,
    /// The checkpoint.
    pub checkpoint: Option<CheckpointInfo>,
    /// Items in the checkpoint.
    pub checkpoint_items: u64,
    /// Items that a rebuild would bring back.
    pub items: u64,
    /// The recovery report.
    pub found: RecoveryReport,
}

/// The results of a check of a table.
#[derive(Clone, Debug, Serialize)]
pub struct TableCheck {
    /// The table.
    #[serde(flatten)]
    pub table: TablePeek,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// The first things that are wrong with it.
    pub problems: Vec<String>,
    /// The total number of problems.
    pub problem_count: u64,
}

impl TableCheck {
    fn new(table: TablePeek) -> TableCheck {
        TableCheck { table, bytes: 0, problems: Vec::new(), problem_count: 0 }
    }

    fn problem(&mut self, what: impl FnOnce() -> String) {
        self.problem_count += 1;
        if self.problems.len() < LISTED {
            self.problems.push(what());
        }
    }
}

/// Checks a store without changing a byte of it. A store that is in use is an error that names its holder.
///
/// Of the image: header, state, roots, chunk directory; every table and every record that the catalogue leads to,
/// with its checksum if it has one; that slots and records belong together, that no two slots lead to one record,
/// that each key exists once and a search finds it. Of the log: every frame, every block of the checkpoint, every
/// record. If there are both, that they agree on every item.
///
/// Damage is in the report; an error means that the check could not be made.
///
/// ```
/// use warpkeep::{Store, StoreOptions, verify};
/// # let directory = tempfile::tempdir().unwrap();
/// Store::open(directory.path())?.close()?;
/// assert!(verify(directory.path(), &StoreOptions::default())?.sound);
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub fn verify(directory: &Path, options: &StoreOptions) -> Result<VerifyReport> {
    let begun = Instant::now();
    let mut look = Look::hold(directory, options)?;
    let mut report = VerifyReport::default();
    report.problems.extend(look.log_damage.take().map(|error| error.to_string()));
    report.problems.extend(Marker::check(directory).err().map(|error| error.to_string()));
    let image = match look.salvaged_image(None) {
        Ok(Some(image)) => Some(image),
        Ok(None) => {
            report.notes.push("there is no image in use; opening the store makes one".into());
            None
        }
        // Lost with the machine, as expected on such a medium: the log replaces it.
        Err(Error::Image(error @ ImageError::NotIntact { .. })) if look.log.is_some() => {
            report.notes.push(format!("{error}; opening the store does so"));
            None
        }
        Err(error) if tells_of_damage(&error) => {
            report.problems.push(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    let mut steps = options.progress.steps(expected(image.as_ref(), look.log.as_ref()));
    if let Some(image) = &image {
        check_image(image, look.log.is_some(), &mut report, &mut steps)?;
    }
    if let Some(log) = &look.log {
        check_log(log, image.as_ref(), &mut report, &mut steps)?;
    }
    report.sound = report.problems.is_empty() && report.tables.iter().all(|table| table.problem_count == 0);
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// About how many items are examined: those of the image, and those of the log.
fn expected(image: Option<&LookedAt>, log: Option<&Recovery>) -> u64 {
    let items = image.map_or(0, |look| look.tables.list().iter().map(|named| named.table.len()).sum());
    let logged = log.map_or(0, |log| log.checkpoint().map_or(0, |info| info.changes) + log.report().records);
    items + logged
}

fn tells_of_damage(error: &Error) -> bool {
    // A table of a kind that this program does not know is damage here, for its header has a checksum.
    error.is_damage() || matches!(error, Error::Invalid(_) | Error::Core(_))
}

fn check_image(look: &LookedAt, has_log: bool, report: &mut VerifyReport, steps: &mut Steps) -> Result<()> {
    let image = look.image();
    report.image = Some(ImageCheck {
        store_id: hex(&image.header().store_id),
        epoch: image.epoch(),
        closed_cleanly: look.attachment == Attachment::Clean,
        bytes: image.len(),
        usage: look.usage(),
    });
    if look.slot_torn {
        report.notes.push("one state slot is torn; the next opening restores it from the other".into());
    }
    match (image.pending()?.len(), has_log) {
        (0, _) => {}
        (commits, true) => {
            report.notes.push(format!("{commits} commits are half way; the next opening finishes them"));
        }
        (_, false) => report.problems.push(Error::LogNeeded.to_string()),
    }
    for named in look.tables.list() {
        let damaged = look.damaged.iter().filter(|(id, _)| *id == named.id).map(|(_, item)| item);
        report.tables.push(check_table(&named, damaged, steps));
    }
    Ok(())
}

fn check_table<'a>(
    named: &Arc<NamedTable<Coherent>>,
    damaged: impl Iterator<Item = &'a DamagedItem>,
    steps: &mut Steps,
) -> TableCheck {
    let table = &named.table;
    let mut check = TableCheck::new(TablePeek::new(&named.name, named.id, &named.spec, table.len()));
    for item in damaged {
        check.problem(|| item.to_string());
    }
    let mut seen = 0;
    let scanned = table.scan(named.id, |change| {
        seen += 1;
        steps.step();
        check.bytes += (change.key.len() + change.value.len()) as u64;
        if let Err(error) = named.spec.key.check(change.key) {
            check.problem(|| format!("key {}: {error}", shown(change.key)));
        } else if let Err(error) = named.spec.value.check(change.value) {
            check.problem(|| format!("key {}: {error}", shown(change.key)));
        } else if table.get(change.key, |value| value.version()) != Some(change.version) {
            check.problem(|| format!("key {} lies where it is not looked for", shown(change.key)));
        }
        Ok::<(), std::convert::Infallible>(())
    });
    match scanned {
        Ok(()) => {}
        Err(never) => match never {},
    }
    match table.doubled() {
        Ok(doubled) if doubled > 0 => check.problem(|| format!("{doubled} keys are there more than once")),
        Ok(_) => {}
        Err(error) => check.problem(|| error.to_string()),
    }
    if seen < check.table.items {
        let items = check.table.items;
        check.problem(|| format!("{items} items were counted, {seen} were found"));
    }
    check
}

fn check_log(
    log: &Recovery,
    image: Option<&LookedAt>,
    report: &mut VerifyReport,
    steps: &mut Steps,
) -> Result<()> {
    let found = log.report();
    if let Some(torn) = found.torn_tail {
        report.notes.push(format!(
            "a write was interrupted in segment {} at byte {}; it was never acknowledged, and the next opening cuts it off",
            torn.segment, torn.offset
        ));
    }
    if let Some(what) = &found.damaged_manifest {
        report.notes.push(format!(
            "one copy of the manifest is damaged ({what}); the next opening restores it from the other"
        ));
    }
    for file in &found.foreign_files {
        report.notes.push(format!("{file} is not a file of this log; it was left alone"));
    }
    let comparison = match image {
        None => None,
        Some(look) => {
            let (ours, theirs) = (look.image().header().store_id, log.store_id());
            let older = look.image().epoch() < log.epoch();
            if ours != theirs {
                report.problems.push(Error::Mismatch { image: hex(&ours), log: hex(&theirs) }.to_string());
            } else if older {
                report.notes.push("the image is older than the log; opening the store rebuilds it".into());
            }
            (ours == theirs && !older).then(|| Comparison::new(look, log, std::mem::take(&mut report.tables)))
        }
    };
    let mut comparison = comparison.transpose()?;
    let contents = match read_log(log, comparison.as_mut(), steps) {
        Ok(contents) => Some(contents),
        Err(error) if tells_of_damage(&error) => {
            report.problems.push(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    report.log = Some(LogCheck {
        store_id: hex(&log.store_id()),
        epoch: log.epoch(),
        closed_cleanly: log.closed_cleanly(),
        checkpoint: log.checkpoint(),
        checkpoint_items: contents.as_ref().map_or(0, |contents| contents.checkpoint_items),
        items: contents.as_ref().map_or(0, LogContents::items),
        found: found.clone(),
    });
    match (comparison, contents) {
        (Some(comparison), contents) => report.tables = comparison.end(contents.as_ref()),
        (None, Some(contents)) if report.tables.is_empty() => {
            report.tables = contents.tables().into_iter().map(TableCheck::new).collect();
        }
        _ => {}
    }
    Ok(())
}

/// Reads a log to its end, and compares it with the image if there is one. Duplicate items are detected only where
/// that matters: if the image does not give the number of items, or gives another one.
fn read_log(
    log: &Recovery,
    comparison: Option<&mut Comparison<'_>>,
    steps: &mut Steps,
) -> Result<LogContents> {
    let mut counted = |_: &Change<'_>| {
        steps.step();
        Ok(())
    };
    match comparison {
        None => LogContents::read_once(log, counted),
        Some(comparison) if comparison.exact => {
            let contents = LogContents::read(log, |change| {
                counted(change)?;
                comparison.item(change)
            })?;
            match comparison.counts_differ(&contents) {
                true => LogContents::read_once(log, counted),
                false => Ok(contents),
            }
        }
        Some(comparison) => LogContents::read_once(log, |change| {
            counted(change)?;
            comparison.item(change)
        }),
    }
}

/// Compares the image with the log.
struct Comparison<'a> {
    look: &'a LookedAt,
    checks: BTreeMap<u32, TableCheck>,
    /// Both were closed together, so they must agree in everything. Otherwise the image may be ahead.
    exact: bool,
    /// Commits are half way, so items may be behind.
    pending: bool,
}

impl<'a> Comparison<'a> {
    fn new(look: &'a LookedAt, log: &Recovery, tables: Vec<TableCheck>) -> Result<Comparison<'a>> {
        let image = look.image();
        Ok(Comparison {
            exact: look.attachment == Attachment::Clean
                && log.closed_cleanly()
                && image.epoch() == log.epoch()
                && image.last_lsn() == log.last_lsn().bits(),
            pending: !image.pending()?.is_empty(),
            checks: tables.into_iter().map(|check| (check.table.id, check)).collect(),
            look,
        })
    }

    /// Whether the log has more or fewer items of a table than the image.
    fn counts_differ(&self, contents: &LogContents) -> bool {
        let differs =
            |told: &TablePeek| self.checks.get(&told.id).is_some_and(|check| check.table.items != told.items);
        contents.tables().iter().any(differs)
    }

    fn item(&mut self, change: &Change<'_>) -> Result<()> {
        let Some(check) = self.checks.get_mut(&change.table) else { return Ok(()) };
        let Some(named) = self.look.tables.get(&check.table.name) else { return Ok(()) };
        let found = named.table.get(change.key, |value| (value.version(), value.to_vec()));
        let what = match found {
            Some((version, value)) if version == change.version => {
                (value != change.value).then_some("has another value in the log")
            }
            Some((version, _)) if version > change.version => {
                self.exact.then_some("has a change that is not in the log")
            }
            Some(_) => (!self.pending).then_some("lacks a change that is in the log"),
            None => self.exact.then_some("is in the log and not in the image"),
        };
        if let Some(what) = what {
            check.problem(|| format!("key {} {what}", shown(change.key)));
        }
        Ok(())
    }

    fn end(mut self, contents: Option<&LogContents>) -> Vec<TableCheck> {
        for told in contents.filter(|_| self.exact).into_iter().flat_map(LogContents::tables) {
            let items = told.items;
            match self.checks.get_mut(&told.id) {
                Some(check) if check.table.items != items => {
                    let found = check.table.items;
                    check.problem(|| format!("it has {found} items, and {items} in the log"));
                }
                Some(_) => {}
                None => {
                    let mut check = TableCheck::new(told);
                    check.problem(|| "it is in the log and not in the image".into());
                    self.checks.insert(check.table.id, check);
                }
            }
        }
        let mut checks: Vec<TableCheck> = self.checks.into_values().collect();
        checks.sort_by(|one, other| one.table.name.cmp(&other.table.name));
        checks
    }
}

/// A key as people can read it: text if it is some, else hexadecimal, cut where it gets long.
pub(crate) fn shown(key: &[u8]) -> String {
    const LONG: usize = 64;
    match std::str::from_utf8(key) {
        Ok(text) if key.len() <= LONG && !text.chars().any(char::is_control) => format!("'{text}'"),
        _ => {
            let dots = if key.len() > LONG { "..." } else { "" };
            format!("0x{}{dots}", hex(&key[..key.len().min(LONG)]))
        }
    }
}
