//! The hash map in device memory, beside its CPU form and random reads of device memory.

mod batch;
mod batches;
mod charts;
mod contestant;
mod growth;
mod operation;
mod options;
mod pairs;

use warpkeep_containers::MapOpKind;
use warpkeep_device::Device;

use self::batch::{ABSENT, Batch, Items};
use self::contestant::{CPU, Contestant};
use self::operation::Operation;
use self::options::MOST_CHANGED_LOAD;
pub use self::options::Options;
pub use self::pairs::Pairs;
use self::pairs::{Key, Value};
use super::{Clock, DEVICE, RATE, relate};
use crate::limits::device::{MemoryLimits, note_of};
use crate::report::{Report, Unit};
use crate::workload::Dice;
use crate::{Amount, BenchError, Progress};

/// Operations of a mixed batch: one for this many keys of the map, and some at least. An eighth of them are inserts, which must not make the map
/// grow.
const KEYS_A_MIXED: u64 = 16;
const LEAST_MIXED: u64 = 8;

/// Measures maps of all sizes and loads.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::map};
///
/// let options = map::Options::on("cuda:0".parse()?);
/// print!("{}", map::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu map", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "operations and answers of the device lie in its memory; the CPU form is a map of the standard library behind the same calls, and doubles at sizes of its own; the time of a doubling contains the mapping of memory; smaller batches of inserts are erased again before the next; mixed batches \
         have a sixteenth of the keys: half lookups, a quarter additions (replacements where values have 16 bytes), an eighth each inserts and erases; above a load of 0.93 there are no mixed batches and no smaller ones that insert; the limit is one bucket of 64 \
         bytes read at random for an operation, two for a key that is not there or a value of 16 bytes; the CPU form takes part up to 2^22 slots; every answer was checked, and what was left in the maps"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let (sizes, loads) = (options.sizes(), options.sorted_loads());
    let total = (sizes.len() * (loads.len() + 1)) as u64 * u64::from(options.rounds);
    progress.begin(&format!("maps on {}", options.device), Amount::Count(total));
    for (pairs, slots) in sizes {
        let bench = Bench { options, device: &device, clock: &clock, progress, pairs, slots };
        match (pairs.key_bytes, pairs.value_bytes) {
            (4, 4) => bench.run::<u32, u32>(&mut report)?,
            (4, 8) => bench.run::<u32, u64>(&mut report)?,
            (4, _) => bench.run::<u32, [u64; 2]>(&mut report)?,
            (_, 4) => bench.run::<u64, u32>(&mut report)?,
            (_, 8) => bench.run::<u64, u64>(&mut report)?,
            _ => bench.run::<u64, [u64; 2]>(&mut report)?,
        }
    }
    progress.finish();
    report.finish();
    report.charts = charts::of(options, &report);
    Ok(report)
}

fn case_name(operation: Operation, pairs: Pairs, load: f64, slots: u64) -> String {
    format!("{operation}, {}load {load}, {slots} slots", pairs.in_a_name())
}

/// What is measured with maps of one size and one pair of widths.
struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
    pairs: Pairs,
    slots: u64,
}

impl Bench<'_> {
    /// Everything, and how near it comes to the limits of memory.
    fn run<K: Key, V: Value>(&self, report: &mut Report) -> Result<(), BenchError> {
        let Bench { options, device, progress, pairs, slots, .. } = *self;
        let bytes = pairs.slot_bytes() * slots;
        let limits = MemoryLimits::measure(device, bytes, options.rounds, progress, report)?;
        for &load in &options.sorted_loads() {
            self.operations::<K, V>(load, report)?;
            let bulk = Operation::ALL.map(|operation| (operation, case_name(operation, pairs, load, slots)));
            let batches = self.batch_cases(load).into_iter().map(|(operation, _, case)| (operation, case));
            for (operation, case) in bulk.into_iter().chain(batches) {
                let reads = operation.reads(pairs);
                let name = match reads {
                    1 => "device memory, random reads of 64 bytes".to_owned(),
                    _ => format!("device memory, {reads} random reads of 64 bytes"),
                };
                let limit = (name.as_str(), limits.random_reads / f64::from(reads));
                relate(report, &case, limit, CPU);
            }
        }
        let case = self.growth::<K, V>(report)?;
        // Every slot is read once, and twice as many are written. A doubling moves all keys, so its limit is in keys, too.
        let keys_a_slot = crate::limits::median(&report.series(&case, DEVICE, "load before it")) / 100.0;
        let slots_a_second = limits.copied / (3 * pairs.slot_bytes()) as f64;
        relate(report, &case, ("device memory, copies", keys_a_slot * slots_a_second), CPU);
        Ok(())
    }

    /// Empty maps on the device and, if they are small, on the CPU.
    fn contestants<K: Key, V: Value>(&self) -> Result<Vec<Contestant<'_, K, V>>, BenchError> {
        let (slots, seed) = (self.slots, self.options.seed);
        let mut contestants = vec![Contestant::on_device(self.device, self.clock, slots, seed)?];
        if Options::has_cpu(slots) {
            contestants.push(Contestant::on_cpu(slots, seed));
        }
        Ok(contestants)
    }

    /// Keys of a map that is so full.
    fn keys(&self, load: f64) -> u64 {
        ((load * self.slots as f64) as u64).max(1)
    }

    /// What smaller batches do on a map that is so full: the operation, the operations of a batch, the case.
    fn batch_cases(&self, load: f64) -> Vec<(Operation, usize, String)> {
        let mut cases = Vec::new();
        for &batch in &self.options.batches {
            for operation in batches::operations(batch, self.slots, self.keys(load)) {
                cases.push((
                    operation,
                    batch,
                    batches::case_name(operation, self.pairs, batch, load, self.slots),
                ));
            }
        }
        cases
    }

    /// All operations on maps that are so full.
    fn operations<K: Key, V: Value>(&self, load: f64, report: &mut Report) -> Result<(), BenchError> {
        let (seed, slots) = (self.options.seed, self.slots);
        let items = Items::new(seed);
        let count = self.keys(load);
        let contestants = self.contestants::<K, V>()?;
        let (insert, hits) = (Batch::insert(items, 0..count), Batch::hits(items, 0..count));
        let misses = Batch::misses(items, ABSENT..ABSENT + count);
        for contestant in &contestants {
            self.progress.check()?;
            // The first batch takes memory.
            contestant.run(&insert)?;
            contestant.map.clear()?;
        }
        for round in 0..self.options.rounds {
            let mut dice = Dice::new(seed, u64::from(round));
            let mixed_count = match load <= MOST_CHANGED_LOAD {
                true => (count / KEYS_A_MIXED).max(LEAST_MIXED),
                false => 0,
            };
            let (mixed, touched) = Batch::mixed(items, count, mixed_count, &mut dice);
            let erase = Batch::erase(items, 0..count, &touched);
            for contestant in &contestants {
                for operation in Operation::ALL {
                    self.progress.check()?;
                    let batch = match operation {
                        Operation::Insert => &insert,
                        Operation::Hit => &hits,
                        Operation::Miss => &misses,
                        Operation::Mixed => &mixed,
                        Operation::Erase => &erase,
                    };
                    if batch.len() == 0 {
                        continue;
                    }
                    let case = case_name(operation, self.pairs, load, slots);
                    let seconds = contestant.run(batch)?;
                    let rate = batch.len() as f64 / seconds;
                    report.add(&case, contestant.name, round, RATE, Unit::PerSecond, rate);
                    report.add(&case, contestant.name, round, "time", Unit::Micros, 1e6 * seconds);
                    if operation == Operation::Insert && contestant.name == DEVICE {
                        self.fullness(contestant, &case, round, report)?;
                    }
                    // While the map has its keys, and no others.
                    if operation == Operation::Miss {
                        self.batches(contestant, load, round, report)?;
                    }
                }
                // Keys that the mixed batch inserted are all that is left: nothing else touches them.
                let inserted = mixed.ops.iter().filter(|op| op.kind == MapOpKind::Insert);
                contestant.check(inserted.map(|op| (op.key, op.value)).collect())?;
                contestant.map.clear()?;
            }
            self.progress.advance(1);
        }
        Ok(())
    }

    /// Smaller batches, on a map that has its keys and keeps them.
    fn batches<K: Key, V: Value>(
        &self,
        contestant: &Contestant<'_, K, V>,
        load: f64,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let (items, keys) = (Items::new(self.options.seed), self.keys(load));
        for &batch in &self.options.batches {
            let work = batches::Work { items, pairs: self.pairs, keys, batch, load, slots: self.slots };
            work.measure(contestant, round, self.progress, report)?;
        }
        Ok(())
    }

    /// How full a map is, and how many keys are in their second bucket; both follow from the keys, and neither is a time.
    fn fullness<K: Key, V: Value>(
        &self,
        contestant: &Contestant<'_, K, V>,
        case: &str,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let (stats, second) = (contestant.map.stats()?, contestant.map.verify()?);
        report.add(case, DEVICE, round, "load", Unit::Percent, 100.0 * stats.load);
        let share = 100.0 * second as f64 / stats.items.max(1) as f64;
        report.add(case, DEVICE, round, "keys in their second bucket", Unit::Percent, share);
        if stats.slots != self.slots && round == 0 {
            report.notes.push(format!(
                "{case}: keys found no place, and the map grew to {} slots; its figures are those of a load of {:.2}",
                stats.slots, stats.load
            ));
        }
        Ok(())
    }

    /// Doublings; gives the case.
    fn growth<K: Key, V: Value>(&self, report: &mut Report) -> Result<String, BenchError> {
        let (seed, slots) = (self.options.seed, self.slots);
        let case = format!("growth, {}{slots} to {} slots", self.pairs.in_a_name(), 2 * slots);
        for round in 0..self.options.rounds {
            for contestant in &self.contestants::<K, V>()? {
                growth::measure(contestant, Items::new(seed), &case, round, self.progress, report)?;
            }
            self.progress.advance(1);
        }
        Ok(case)
    }
}
