//! `warpkeep demo`: the engine at work, and what a crash does to it.

mod model;
mod plan;
mod report;
mod victim;
mod writer;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tempfile::TempDir;
use warpkeep::{Durability, Edit, Origin};
use warpkeep_bench::machine::placement_in;
use warpkeep_bench::measure::Latencies;
use warpkeep_bench::{Amount, Progress};
use warpkeep_core::{Seed, mix64};
use warpkeep_image::Medium;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::progress::Bars;
use model::Model;
use plan::{Plan, Stamp};
use report::{Kill, Loading, Place, PowerCut, Report};
use victim::Killed;
pub(crate) use writer::DemoWriter;
use writer::{Store, open_store};

/// Threads of the writer that is killed.
const WRITERS: u32 = 4;
const BATCH: u64 = 256;
/// One batch in so many is committed with `Power`.
const POWER_EVERY: u64 = 64;
/// What a row takes in the image at most, its growth included.
const IMAGE_BYTES_PER_ROW: u64 = 256;

/// How much of it.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to make a directory for the log; by default the system's place for temporary files.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Rows to load.
    #[arg(long, default_value_t = 200_000, value_name = "N", value_parser = clap::value_parser!(u64).range(400..=1 << 32))]
    items: u64,
    /// How often a writer is killed.
    #[arg(long, default_value_t = 3, value_name = "K", value_parser = clap::value_parser!(u32).range(0..=1000))]
    kills: u32,
    /// Seed of everything random; drawn by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Leave the store behind to look at.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// Where the store of the demonstration lies.
struct Places {
    image: TempDir,
    log: TempDir,
}

impl Places {
    /// The log on a disk; the image on tmpfs if there is room.
    fn new(dir: Option<&Path>, rows: u64) -> Result<Places, Failure> {
        let base = dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let temporary = |parent: &Path| {
            let made = tempfile::Builder::new().prefix("warpkeep-demo-").tempdir_in(parent);
            made.map_err(Failure::io(format!("make a directory in {}", parent.display())))
        };
        std::fs::create_dir_all(&base)
            .map_err(Failure::io(format!("make the directory {}", base.display())))?;
        let log = temporary(&base)?;
        let shared_memory = Path::new("/dev/shm");
        let needed = (64 << 20) + 2 * rows * IMAGE_BYTES_PER_ROW;
        let has_room = placement_in(shared_memory)
            .is_ok_and(|placement| placement.medium == Medium::Tmpfs && placement.free_bytes > needed);
        let image = has_room.then(|| temporary(shared_memory)).and_then(Result::ok);
        let image = image.map_or_else(|| temporary(&base), Ok)?;
        Ok(Places { image, log })
    }

    fn image(&self) -> PathBuf {
        self.image.path().join("image")
    }

    fn log(&self) -> PathBuf {
        self.log.path().join("log")
    }

    fn describe(directory: &TempDir) -> Result<Place, Failure> {
        let placement = placement_in(directory.path())?;
        Ok(Place {
            path: directory.path().to_path_buf(),
            file_system: placement.file_system,
            medium: placement.medium,
        })
    }
}

struct Run<'a> {
    plan: Plan,
    places: &'a Places,
    format: Format,
    interrupt: Interrupt,
    bars: Bars,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => {
                let mut seed = [0; 8];
                warpkeep_image::fill_random(&mut seed)?;
                // Short enough to be typed again.
                u64::from_le_bytes(seed) % 1_000_000
            }
        };
        let places = Places::new(self.dir.as_deref(), self.items)?;
        let interrupt = Interrupt::listen()?;
        let run = Run {
            plan: Plan { seed, rows: self.items, writers: WRITERS },
            places: &places,
            format: self.format,
            bars: Bars::new(!self.format.json, &interrupt),
            interrupt,
        };
        let mut report = run.run(self.kills)?;
        drop(run);
        report.kept = self.keep;
        if self.keep {
            let _ = (places.image.keep(), places.log.keep());
        }
        self.format.show(&report, || format!("{}\n", report.end()))
    }
}

impl Run<'_> {
    fn run(&self, kills: u32) -> Result<Report, Failure> {
        let (image, log) = (Places::describe(&self.places.image)?, Places::describe(&self.places.log)?);
        self.format.say(image.line("image in", "survives the process"))?;
        self.format.say(log.line("log in", "survives the machine"))?;

        let loading = self.load()?;
        self.format.say(loading.line())?;
        let mut model = Model::loaded(self.plan);
        let mut done = Vec::new();
        for round in 1..=kills {
            let killed = self.write_until_killed(round)?;
            let (store, opened) = open_store(&self.places.image(), &self.places.log(), self.plan.rows)?;
            expect(Origin::Reattached, opened.origin)?;
            let found = self.read(&store)?;
            model.check_reattached(round, &killed.acks, &found).map_err(Failure::Damage)?;
            let kill = Kill {
                acknowledged: killed.acks.0.len() as u64,
                with_power: killed.power,
                writer_seconds: killed.after.as_secs_f64(),
                finished_commits: opened.finished_commits,
                reattach_seconds: opened.seconds,
            };
            self.format.say(kill.line(done.len() + 1))?;
            // Left open, it would be this process's, which lives on, and the next writer would be refused.
            store.close()?;
            done.push(kill);
        }
        let (power_cut, store) = self.cut_power(kills + 1, &mut model)?;
        self.format.say(power_cut.line())?;
        let heap = store.heap().usage();
        store.close()?;
        let seed = self.plan.seed;
        Ok(Report { seed, image, log, loading, kills: done, power_cut, heap, kept: false, held: true })
    }

    /// Fills a new store, in batches, some of them with `Power`.
    fn load(&self) -> Result<Loading, Failure> {
        let rows = self.plan.rows;
        let (store, opened) = open_store(&self.places.image(), &self.places.log(), rows)?;
        expect(Origin::Created, opened.origin)?;
        self.bars.begin("loading", Amount::Count(rows));
        let mut latencies = Latencies::new();
        let mut buffers = vec![Vec::new(); BATCH as usize];
        let begun = Instant::now();
        for (number, first) in (0..rows).step_by(BATCH as usize).enumerate() {
            self.interrupt.check()?;
            let cells = first..(first + BATCH).min(rows);
            cells.clone().zip(&mut buffers).for_each(|(cell, row)| self.plan.row(cell, Stamp::LOADED, row));
            let edits: Vec<Edit<'_>> =
                cells.zip(&buffers).map(|(cell, row)| (cell, Some(&row[..]))).collect();
            let with_power = (number as u64).is_multiple_of(POWER_EVERY);
            let before = Instant::now();
            store.edit(&edits, if with_power { Durability::Power } else { Durability::Process })?;
            if with_power {
                latencies.record(before.elapsed());
            }
            self.bars.advance(edits.len() as u64);
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.bars.finish();
        store.close()?;
        Ok(Loading {
            rows,
            seconds,
            rows_per_second: rows as f64 / seconds,
            power_commits: latencies.count(),
            power_p50_us: latencies.micros(50.0),
            power_p99_us: latencies.micros(99.0),
        })
    }

    fn write_until_killed(&self, round: u32) -> Result<Killed, Failure> {
        self.interrupt.check()?;
        let writer = DemoWriter {
            image: self.places.image(),
            log: self.places.log(),
            rows: self.plan.rows,
            writers: self.plan.writers,
            seed: self.plan.seed,
            round,
        };
        let delay = Duration::from_micros(mix64(Seed(self.plan.seed), u64::from(round)) % 200_000);
        victim::run(&writer, &self.plan, delay, &self.interrupt)
    }

    /// Which write each row is the work of.
    fn read(&self, store: &Store) -> Result<Vec<Stamp>, Failure> {
        let stamp = |cell: u64| {
            let row = store.get(cell)?.ok_or_else(|| Failure::Damage(format!("row {cell} is gone")))?;
            let stamp = self.plan.stamp_of(cell, &row);
            stamp.ok_or_else(|| Failure::Damage(format!("row {cell} is half-written or not ours")))
        };
        (0..self.plan.rows).map(stamp).collect()
    }

    /// Loses the image the way a power cut would, and rebuilds it from the log directory. What the kernel had not yet
    /// written of the log it keeps here; that it may lose that, too, is what the crash explorer's tests are for.
    fn cut_power(&self, round: u32, model: &mut Model) -> Result<(PowerCut, Store), Failure> {
        let killed = self.write_until_killed(round)?;
        let image = self.places.image();
        std::fs::remove_file(&image).map_err(Failure::io("throw the image away"))?;
        let (store, opened) = open_store(&image, &self.places.log(), self.plan.rows)?;
        expect(Origin::Rebuilt, opened.origin)?;
        let found = self.read(&store)?;
        let survived = model.check_rebuilt(round, &killed.acks, &found).map_err(Failure::Damage)?;
        let power_cut = PowerCut {
            acknowledged: killed.acks.0.len() as u64,
            with_power: killed.power,
            loaded: opened.loaded,
            redone: opened.redone,
            rebuild_seconds: opened.seconds,
            power_commits_there: survived.power_commits,
            process_writes_gone: survived.lost_process_writes,
        };
        Ok((power_cut, store))
    }
}

fn expect(expected: Origin, found: Origin) -> Result<(), Failure> {
    match expected == found {
        true => Ok(()),
        false => {
            Err(Failure::Damage(format!("the store should have been {expected:?}, but it was {found:?}")))
        }
    }
}
