//! Coming back: after the process died, and after the image was lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use warpkeep::engine::{Cells, Edit, Keeper, LogPlace, open};
use warpkeep::{Durability, OpenReport, Origin};
use warpkeep_core::{Seed, mix64};
use warpkeep_image::{Coherent, size_class};
use warpkeep_log::{LogOptions, OsDisk};

use super::Options;
use super::place::TimedImage;
use super::watch::{Watch, WatchedDisk};
use crate::limits::{disk, memory};
use crate::machine::{Others, placement_in};
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::size::Size;
use crate::{Amount, BenchError, Progress, Values};

type Store = Keeper<Coherent, Cells<Coherent>>;

const BATCH: u64 = 128;
/// Bytes of a record besides its value.
const RECORD_HEAD: u64 = 16;
/// Bytes of a change besides its value, in logs and checkpoints.
const CHANGE_HEAD: u64 = 32;
const SAMPLES: u64 = 5000;

pub(crate) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    for &size in &options.sizes {
        let case = Case::new(options, size, progress);
        match case.obstacle(options)? {
            Some(obstacle) => report.notes.push(format!("a store of {size} was left out: {obstacle}")),
            None => case.run(options, report)?,
        }
    }
    Ok(())
}

struct Case<'a> {
    name: String,
    items: u64,
    values: Values,
    tail: u64,
    /// The walk of the writes after the checkpoint: where it begins, and its step.
    walk: (u64, u64),
    image_bytes: u64,
    disk_bytes: u64,
    progress: &'a dyn Progress,
}

impl<'a> Case<'a> {
    fn new(options: &Options, size: Size, progress: &'a dyn Progress) -> Case<'a> {
        let value = options.value_bytes as u64;
        let items = size.0 / value;
        let block = size_class(RECORD_HEAD + value).unwrap_or(value);
        let tail = items * u64::from(options.tail_percent) / 100;
        Case {
            name: format!("recovery, {size} in {items} values"),
            items,
            values: Values::new(options.seed, options.value_bytes),
            tail,
            walk: (mix64(Seed(options.seed), items) % items, tail_step(items)),
            // Blocks and words, the ends of slabs, and a slab a thread and size.
            image_bytes: (items * (block + 8)) / 63 * 64 + (64 << 20),
            // The log of the fill, the checkpoint, and segments made ahead.
            disk_bytes: (2 * items + tail) * (value + CHANGE_HEAD + RECORD_HEAD) + (512 << 20),
            progress,
        }
    }

    /// The obstacle, if there is one.
    fn obstacle(&self, options: &Options) -> Result<Option<String>, BenchError> {
        for (directory, needed) in [(&options.image_dir, self.image_bytes), (&options.dir, self.disk_bytes)] {
            let free = placement_in(directory)?.free_bytes;
            if free < needed {
                return Ok(Some(format!(
                    "it needs {} in {}, and {} are free",
                    Size(needed),
                    directory.display(),
                    Size(free)
                )));
            }
        }
        Ok(None)
    }

    fn run(&self, options: &Options, report: &mut Report) -> Result<(), BenchError> {
        let scratch = Scratch::new(&options.dir, &options.image_dir)?;
        let log = scratch.disk().join("log");
        let image = TimedImage::new(scratch.images().join("image"), self.image_bytes);
        self.prepare(&image, &log, report)?;

        let others = Others::watch();
        for repeat in 0..options.repeats {
            disk::forget(&log)?;
            let (opened, store) = self.bring_back(&format!("{}: re-attach", self.name), &image, &log)?;
            expect(Origin::Reattached, &opened.report)?;
            self.check(&store)?;
            drop(store);
            self.add_reattach(report, repeat, &opened);
        }
        for repeat in 0..options.repeats {
            std::fs::remove_file(image.path()).map_err(BenchError::io("remove the image"))?;
            disk::forget(&log)?;
            let (opened, store) = self.bring_back(&format!("{}: rebuild", self.name), &image, &log)?;
            expect(Origin::Rebuilt, &opened.report)?;
            self.check(&store)?;
            drop(store);
            self.add_rebuild(report, repeat, &opened);
        }
        report.others(&self.name, others.share());
        let checkpoint = checkpoint_file(&log)?;
        for repeat in 0..options.repeats {
            self.progress.check()?;
            disk::forget(&log)?;
            let mut add = |metric, value| {
                report.add(&self.name, "limit", repeat, metric, Unit::BytesPerSecond, value);
            };
            add("sequential read", disk::read_rate(&checkpoint)?);
            add("memcpy", memory::copy_rate());
        }
        Ok(())
    }

    /// Fills a store, takes a checkpoint, writes on, and is gone as if it had been killed.
    fn prepare(&self, image: &TimedImage, log: &Path, report: &mut Report) -> Result<(), BenchError> {
        let (_, store) = self.open(image, log)?;
        let mut add = |metric, unit, value| report.add(&self.name, "prepare", 0, metric, unit, value);

        let fill_seconds =
            self.write(&format!("{}: fill", self.name), &store, self.items, |turn| (turn, 0))?;
        add("live data", Unit::Bytes, self.live_bytes());
        add("fill", Unit::BytesPerSecond, self.live_bytes() / fill_seconds);

        self.progress.begin(&format!("{}: checkpoint", self.name), Amount::Count(1));
        let begun = Instant::now();
        let checkpoint = store.checkpoint()?;
        add("checkpoint", Unit::BytesPerSecond, checkpoint.bytes as f64 / begun.elapsed().as_secs_f64());
        self.progress.finish();

        let title = format!("{}: writes after the checkpoint", self.name);
        let tail_seconds = self.write(&title, &store, self.tail, |turn| (self.tail_cell(turn), 1))?;
        let tail_bytes = self.tail as f64 * self.values.len() as f64;
        add("tail", Unit::Bytes, tail_bytes);
        add("tail writes", Unit::BytesPerSecond, tail_bytes / tail_seconds.max(f64::MIN_POSITIVE));
        Ok(())
    }

    fn live_bytes(&self) -> f64 {
        self.items as f64 * self.values.len() as f64
    }

    /// A seeded walk that visits no cell twice before it has visited all.
    fn tail_cell(&self, turn: u64) -> u64 {
        let (start, step) = self.walk;
        let far = u128::from(turn) * u128::from(step) + u128::from(start);
        (far % u128::from(self.items)) as u64
    }

    /// Puts values with `Process` and makes them durable; returns the seconds.
    fn write(
        &self,
        title: &str,
        store: &Store,
        count: u64,
        what: impl Fn(u64) -> (u64, u64) + Sync,
    ) -> Result<f64, BenchError> {
        self.progress.begin(title, Amount::Bytes(count * self.values.len() as u64));
        let next = AtomicU64::new(0);
        let work = || -> Result<(), BenchError> {
            let mut values: Vec<Vec<u8>> = vec![Vec::new(); BATCH as usize];
            loop {
                let from = next.fetch_add(BATCH, Ordering::Relaxed);
                if from >= count {
                    return Ok(());
                }
                self.progress.check()?;
                let turns = from..(from + BATCH).min(count);
                let cells: Vec<u64> = turns
                    .zip(&mut values)
                    .map(|(turn, value)| {
                        let (cell, generation) = what(turn);
                        self.values.write(cell, generation, value);
                        cell
                    })
                    .collect();
                let edits: Vec<Edit<'_>> =
                    cells.iter().zip(&values).map(|(&cell, value)| (cell, Some(&value[..]))).collect();
                store.edit(&edits, Durability::Process)?;
                self.progress.advance((edits.len() * self.values.len()) as u64);
            }
        };
        let begun = Instant::now();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().map_err(|_| BenchError::Wrong("a writer panicked".to_owned()))?
            })
        })?;
        store.flush()?;
        self.progress.finish();
        Ok(begun.elapsed().as_secs_f64())
    }

    fn open(&self, image: &TimedImage, log: &Path) -> Result<(Opened, Store), BenchError> {
        let watch = Arc::new(Watch::default());
        let disk = WatchedDisk::new(OsDisk::open(log)?, &watch);
        let place = LogPlace::new(disk, LogOptions::default());
        let (store, report) = open::<_, Cells<_>>(image, Some(place), Default::default(), &self.items)?;
        let times = image.take_times();
        let loaded = times.created.zip(watch.checkpoint_read());
        let opened = Opened {
            open: times.open.as_secs_f64(),
            create: times.create.as_secs_f64(),
            log: report.log.as_ref().map_or(0.0, |log| log.seconds),
            load: loaded.map_or(0.0, |(from, to)| to.saturating_duration_since(from).as_secs_f64()),
            report,
        };
        Ok((opened, store))
    }

    fn bring_back(&self, title: &str, image: &TimedImage, log: &Path) -> Result<(Opened, Store), BenchError> {
        self.progress.check()?;
        self.progress.begin(title, Amount::Count(1));
        let opened = self.open(image, log)?;
        self.progress.finish();
        Ok(opened)
    }

    /// Checks that a sample of the cells holds the last written values.
    fn check(&self, store: &Store) -> Result<(), BenchError> {
        let wrong = |cell: u64, what: &str| Err(BenchError::Wrong(format!("cell {cell} {what}")));
        let pick = |sample, of: u64| mix64(Seed(sample), self.items) % of;
        for sample in 0..SAMPLES.min(self.items) {
            let (cell, generation) = match sample % 2 {
                0 if self.tail > 0 => (self.tail_cell(pick(sample, self.tail)), 1),
                // Where the walk would have continued: a cell that it never visited.
                _ if self.tail < self.items => {
                    (self.tail_cell(self.tail + pick(sample, self.items - self.tail)), 0)
                }
                _ => continue,
            };
            match store.get(cell)? {
                Some(value) if self.values.matches(cell, generation, &value) => {}
                Some(_) => return wrong(cell, "holds something else than was written"),
                None => return wrong(cell, "is empty"),
            }
        }
        Ok(())
    }

    fn add_reattach(&self, report: &mut Report, repeat: u32, opened: &Opened) {
        let total = opened.report.seconds;
        let mut add = |metric, unit, value| report.add(&self.name, "re-attach", repeat, metric, unit, value);
        add("total", Unit::Seconds, total);
        add("map image", Unit::Seconds, opened.open);
        add("scan log", Unit::Seconds, opened.log);
        add("mark and rest", Unit::Seconds, (total - opened.open - opened.log).max(0.0));
        add("data a second", Unit::BytesPerSecond, self.live_bytes() / total);
    }

    fn add_rebuild(&self, report: &mut Report, repeat: u32, opened: &Opened) {
        let total = opened.report.seconds;
        let mut add = |metric, unit, value| report.add(&self.name, "rebuild", repeat, metric, unit, value);
        add("total", Unit::Seconds, total);
        add("scan log", Unit::Seconds, opened.log);
        add("create image", Unit::Seconds, opened.create);
        add("load checkpoint", Unit::Seconds, opened.load);
        let redo = total - opened.open - opened.create - opened.log - opened.load;
        add("redo and rest", Unit::Seconds, redo.max(0.0));
        let changes = opened.report.loaded + opened.report.redone;
        let bytes = changes as f64 * self.values.len() as f64;
        add("data a second", Unit::BytesPerSecond, bytes / total);
    }
}

/// How a store was opened, and the seconds of each part.
struct Opened {
    report: OpenReport,
    open: f64,
    create: f64,
    log: f64,
    load: f64,
}

fn expect(origin: Origin, report: &OpenReport) -> Result<(), BenchError> {
    match report.origin == origin {
        true => Ok(()),
        false => Err(BenchError::Wrong(format!("expected {origin:?}, but it was {:?}", report.origin))),
    }
}

/// A step through `items` cells that shares no divisor with their number.
fn tail_step(items: u64) -> u64 {
    let shares_divisor = |step: u64| {
        let (mut a, mut b) = (step, items);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a != 1
    };
    // About the golden section of the cells, so that neighbours in time are far apart in space.
    let mut step = (items as f64 * 0.618) as u64 + 1;
    while shares_divisor(step) {
        step += 1;
    }
    step
}

fn checkpoint_file(log: &Path) -> Result<PathBuf, BenchError> {
    let entries = std::fs::read_dir(log).map_err(BenchError::io("list the log directory"))?;
    let is_checkpoint = |path: &PathBuf| path.extension().is_some_and(|end| end == "wkc");
    let found = entries.filter_map(|entry| Some(entry.ok()?.path())).find(is_checkpoint);
    found.ok_or_else(|| BenchError::Wrong("the log directory holds no checkpoint".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;

    #[test]
    fn the_tail_comes_to_every_cell_once() {
        for items in [1, 2, 7, 1000, 1024] {
            let options = Options { value_bytes: 8, ..Options::default() };
            let case = Case::new(&options, Size(items * 8), &Quiet);
            let mut seen: Vec<u64> = (0..items).map(|turn| case.tail_cell(turn)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..items).collect::<Vec<_>>());
        }
    }
}
