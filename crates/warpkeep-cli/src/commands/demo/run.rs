//! The demonstration, step by step.

use std::time::{Duration, Instant};

use warpkeep::{Durability, KeySpec, Origin, Results, Store, TableOptions, ValueSpec};
use warpkeep_bench::measure::Latencies;
use warpkeep_bench::{Amount, Progress};
use warpkeep_core::{Seed, mix64};

use super::model::Model;
use super::places::Places;
use super::plan::{Plan, ROW_BYTES, Stamp};
use super::report::{Kill, Loading, LookingUp, PowerCut, Report, Space};
use super::victim::{self, Killed};
use super::{DemoWriter, TABLE};
use crate::commands::check_statuses;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::progress::Bars;

/// Operations in a batch of the loading and of the lookups.
const BATCH: u64 = 4096;
/// One batch in this many is loaded with `Power`.
const POWER_EVERY: u64 = 16;

pub(crate) struct Run<'a> {
    pub(crate) plan: Plan,
    pub(crate) places: &'a Places,
    pub(crate) format: Format,
    pub(crate) interrupt: Interrupt,
    pub(crate) bars: Bars,
}

impl Run<'_> {
    pub(crate) fn run(&self, looking_up: Duration, kills: u32) -> Result<Report, Failure> {
        let (image, log) = self.places.describe()?;
        self.format.say(image.line("image in", "survives the process"))?;
        self.format.say(log.line("log in", "survives the machine"))?;

        let store = self.open(Origin::Created)?;
        let loading = self.load(&store)?;
        self.format.say(loading.line())?;
        let lookups = self.look_up(&store, looking_up)?;
        self.format.say(lookups.line())?;
        store.close()?;

        let mut model = Model::loaded(self.plan);
        let mut done = Vec::new();
        for round in 1..=kills {
            let killed = self.write_until_killed(round)?;
            let store = self.open(Origin::Reattached)?;
            let found = self.read(&store)?;
            model.check_reattached(round, &killed.acks, &found).map_err(Failure::Damage)?;
            let opened = store.report();
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
        let space = Space { table: store.table(TABLE)?.stats()?, heap: store.usage() };
        store.close()?;
        let seed = self.plan.seed;
        let store = self.places.store();
        Ok(Report {
            seed,
            store,
            image,
            log,
            loading,
            lookups,
            kills: done,
            power_cut,
            space,
            kept: false,
            held: true,
        })
    }

    /// Opens the store, whose origin must be the expected one.
    fn open(&self, expected: Origin) -> Result<Store, Failure> {
        let at = self.places.store();
        let options = warpkeep::StoreOptions {
            image: at.image.clone(),
            device: at.device,
            // A power cut is shown by taking the image away.
            abandon_image: true,
            ..Default::default()
        };
        let store = at.open(options)?;
        let found = store.report().origin;
        match expected == found {
            true => Ok(store),
            false => {
                Err(Failure::Damage(format!("the store should have been {expected:?}, but it was {found:?}")))
            }
        }
    }

    /// Fills a new table, in batches, some of them with `Power`.
    fn load(&self, store: &Store) -> Result<Loading, Failure> {
        let rows = self.plan.rows;
        let value = ValueSpec::fixed(ROW_BYTES as u32).map_err(warpkeep::Error::from)?;
        let table = store.create_table(TABLE, TableOptions::new(KeySpec::U64, value).capacity(rows))?;
        self.bars.begin("loading", Amount::Count(rows));
        let mut latencies = Latencies::new();
        let (mut batch, mut row) = (table.batch(), Vec::new());
        // The time it takes to make the rows up is not the store's.
        let mut took = Duration::ZERO;
        for (number, first) in (0..rows).step_by(BATCH as usize).enumerate() {
            self.interrupt.check()?;
            batch.clear();
            for key in first..(first + BATCH).min(rows) {
                self.plan.row(key, Stamp::LOADED, &mut row);
                batch.put(key, &row).map_err(warpkeep::Error::from)?;
            }
            let with_power = (number as u64).is_multiple_of(POWER_EVERY);
            let before = Instant::now();
            let results =
                table.run(&batch, if with_power { Durability::Power } else { Durability::Process })?;
            let elapsed = before.elapsed();
            check_statuses(&results)?;
            took += elapsed;
            if with_power {
                latencies.record(elapsed);
            }
            self.bars.advance(batch.len() as u64);
        }
        self.bars.finish();
        let seconds = took.as_secs_f64();
        Ok(Loading {
            rows,
            seconds,
            rows_per_second: rows as f64 / seconds,
            power_commits: latencies.count(),
            power_p50_us: latencies.micros(50.0),
            power_p99_us: latencies.micros(99.0),
        })
    }

    /// Looks rows up at random, a batch at a time, and checks one in a batch.
    fn look_up(&self, store: &Store, how_long: Duration) -> Result<LookingUp, Failure> {
        let table = store.table(TABLE)?;
        let mut batch = table.batch();
        let mut results = Results::default();
        let (mut lookups, mut took) = (0, Duration::ZERO);
        self.bars.begin("looking up", Amount::Count(1));
        while took < how_long || lookups == 0 {
            self.interrupt.check()?;
            batch.clear();
            let draw = |at: u64| mix64(Seed(self.plan.seed), lookups + at) % self.plan.rows;
            for at in 0..BATCH {
                batch.get(draw(at)).map_err(warpkeep::Error::from)?;
            }
            let before = Instant::now();
            let view = batch.view();
            results.prepare(&view);
            table.run_into(&view, Durability::Process, &mut results)?;
            took += before.elapsed();
            let row = results.value(0).ok_or_else(|| Failure::Damage("a row is gone".into()))?;
            self.plan.stamp_of(draw(0), row).ok_or_else(|| Failure::Damage("a row is not ours".into()))?;
            lookups += BATCH;
        }
        self.bars.finish();
        let seconds = took.as_secs_f64();
        Ok(LookingUp { lookups, seconds, lookups_per_second: lookups as f64 / seconds })
    }

    fn write_until_killed(&self, round: u32) -> Result<Killed, Failure> {
        self.interrupt.check()?;
        let writer = DemoWriter {
            store: self.places.store(),
            worked: self.places.worked(),
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
        let table = store.table(TABLE)?;
        let (mut batch, mut stamps) = (table.batch(), Vec::with_capacity(self.plan.rows as usize));
        for first in (0..self.plan.rows).step_by(BATCH as usize) {
            self.interrupt.check()?;
            batch.clear();
            let keys = first..(first + BATCH).min(self.plan.rows);
            for key in keys.clone() {
                batch.get(key).map_err(warpkeep::Error::from)?;
            }
            let results = table.run(&batch, Durability::Process)?;
            for (key, outcome) in keys.zip(results.iter()) {
                let row = outcome.value.ok_or_else(|| Failure::Damage(format!("row {key} is gone")))?;
                let stamp = self.plan.stamp_of(key, row);
                stamps.push(stamp.ok_or_else(|| Failure::Damage(format!("row {key} is torn or not ours")))?);
            }
        }
        Ok(stamps)
    }

    /// Loses the image as in a power cut, and rebuilds it from the log directory. Here the kernel still has the
    /// unwritten part of the log; the crash explorer's tests cover its loss.
    fn cut_power(&self, round: u32, model: &mut Model) -> Result<(PowerCut, Store), Failure> {
        let killed = self.write_until_killed(round)?;
        std::fs::remove_file(self.places.store().image_path())
            .map_err(Failure::io("throw the image away"))?;
        let store = self.open(Origin::Rebuilt)?;
        let found = self.read(&store)?;
        let survived = model.check_rebuilt(round, &killed.acks, &found).map_err(Failure::Damage)?;
        let opened = store.report();
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
