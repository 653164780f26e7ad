//! The ordered map in device memory, beside the native CPU implementation and random reads of device memory.

mod batch;
mod by_kernel;
mod contestant;
mod items;
mod options;

use warpkeep_containers::{OrderedKey, OrderedWord, Upsert};
use warpkeep_device::Device;

pub(crate) use self::batch::{Answers, Batch, Operation};
use self::by_kernel::ByKernel;
pub(crate) use self::contestant::Contestant;
use self::contestant::{CPU, check_pairs};
pub(crate) use self::items::Items;
pub use self::options::{Options, Pairs};
use super::{Clock, DEVICE, RATE, relate};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::limits::device::{Access, AccessLimits, note_of};
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{Amount, BenchError, Progress};

/// Operations of the batches of one size in a round at the most, unless one batch has more, and batches.
const MOST_OPERATIONS: u64 = 1 << 22;
const MOST_BATCHES: u64 = 8;
/// Pairs that a leaf has about, for the memory in which the limit is measured.
const PAIRS_A_LEAF: u64 = 10;
/// Batches of other keys that are measured for each number of a batch.
const TURNS: u64 = 11;

/// What is measured with batches of every size, in this order.
const CASES: [&str; 14] = [
    "find, unsorted",
    "find, sorted",
    "range of 8",
    "successor",
    "insert",
    "erase",
    "first insert after a snapshot",
    "find at a snapshot, unsorted",
    "find at a snapshot, sorted",
    "half inserts, half ranges of 8",
    "range of 8 at a snapshot",
    "kernel-insert",
    "kernel-insert, opened and finished",
    "kernel-find",
];

/// How a map is built at once, in this order.
const BUILDS: [&str; 4] =
    ["build, unsorted", "build of host memory, unsorted", "build of host memory, sorted", "build, sorted"];

/// Measures maps of all widths and sizes.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, gpu::ordered};
///
/// let options = ordered::Options::on("cuda:0".parse()?);
/// print!("{}", ordered::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("gpu ordered", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "operations and answers of the device lie in its memory, except those of a build of host memory, which has the link in its time; the time of a batch that changes \
         the map contains its sort; the map stays at its size: what is inserted is erased again; the limit of an operation is one leaf read at random: one line of 128 bytes for pairs of 4/4, \
         two for 8/8, in as much device memory, and sorted finds that share leaves can exceed it; each case has other keys, as far as the map has them, but what is erased was inserted just before, and a kernel finds \
         keys beside those that it inserted: their leaves can be in the caches of the device; the CPU takes part up to 2^20 pairs, and copies its map at the first insert after a snapshot; every answer was checked"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let maps = options.maps();
    let total = maps.len() as u64 * u64::from(options.rounds);
    progress.begin(&format!("ordered maps on {}", options.device), Amount::Count(total));
    for (pairs, items) in maps {
        let bench = Bench { options, device: &device, clock: &clock, progress, pairs, items };
        match pairs {
            Pairs::Four => bench.run::<u32, u32>(&mut report)?,
            Pairs::Eight => bench.run::<u64, u64>(&mut report)?,
        }
    }
    progress.finish();
    report.finish();
    report.charts = charts(options, &report);
    Ok(report)
}

fn case_of(case: &str, pairs: Pairs, batch: usize, items: usize) -> String {
    format!("{case}, {pairs} pairs, batches of {batch}, {items} pairs in the map")
}

fn build_case_of(case: &str, pairs: Pairs, items: usize) -> String {
    format!("{case}, {pairs} pairs, {items} pairs in the map")
}

struct Bench<'b> {
    options: &'b Options,
    device: &'b Device,
    clock: &'b Clock,
    progress: &'b dyn Progress,
    pairs: Pairs,
    items: usize,
}

impl Bench<'_> {
    fn run<K: OrderedKey<V>, V: OrderedWord>(&self, report: &mut Report) -> Result<(), BenchError> {
        let Bench { options, pairs, items, .. } = *self;
        let (lines, count) = (pairs.leaf_lines(), items as u64);
        let read = Access::RandomRead(128);
        let bytes = 128 * lines * count.div_ceil(PAIRS_A_LEAF);
        let limits =
            AccessLimits::measure(self.device, bytes, &[read], options.rounds, self.progress, report)?;
        let of = Items::<K, V>::new(options.seed, count);
        let unsorted = Batch::build(&of, (0..count).map(|number| of.shuffled(number)));
        let sorted = Batch::build(&of, 0..count);
        let mut places = vec![Some((self.device, self.clock))];
        if Options::has_cpu(items) {
            places.push(None);
        }
        // The first batch compiles kernels and takes memory.
        Contestant::<K, V>::new(places[0])?.run(&unsorted)?;
        for round in 0..options.rounds {
            for &place in &places {
                self.progress.check()?;
                let contestant = Contestant::new(place)?;
                let seconds = contestant.run(&unsorted)?;
                self.add_build(&contestant, BUILDS[0], round, seconds, report);
                self.memory(&contestant, &of, round, report)?;
                for batch in options.batches_of(items) {
                    self.batches(&contestant, &of, batch, round, report)?;
                }
                self.progress.check()?;
                check_pairs(contestant.name, &contestant.map, &of)?;
                for (case, batch, is_sorted) in [(BUILDS[1], &unsorted, false), (BUILDS[2], &sorted, true)] {
                    self.progress.check()?;
                    let seconds = contestant.build_of_host(&of, batch, is_sorted)?;
                    self.add_build(&contestant, case, round, seconds, report);
                }
                if let Some(seconds) = Contestant::new(place)?.build_sorted(&of, &sorted)? {
                    self.add_build(&contestant, BUILDS[3], round, seconds, report);
                }
            }
            self.progress.advance(1);
        }
        let (name, rate) = match lines {
            1 => ("device memory, random reads of 128 bytes", limits.rate(read)),
            _ => ("device memory, 2 random reads of 128 bytes", limits.rate(read) / 2.0),
        };
        for batch in options.batches_of(items) {
            for case in CASES {
                relate(report, &case_of(case, pairs, batch, items), (name, rate), CPU);
            }
        }
        for case in BUILDS {
            // No random reads bind a build.
            relate(report, &build_case_of(case, pairs, items), ("", 0.0), CPU);
        }
        Ok(())
    }

    fn add_build<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        contestant: &Contestant<'_, K, V>,
        case: &str,
        round: u32,
        seconds: f64,
        report: &mut Report,
    ) {
        let case = build_case_of(case, self.pairs, self.items);
        report.add(&case, contestant.name, round, RATE, Unit::PerSecond, self.items as f64 / seconds);
        report.add(&case, contestant.name, round, "time", Unit::Micros, 1e6 * seconds);
    }

    /// What a snapshot keeps after one pair in ten got another value, for each pair of the map.
    fn pin<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        contestant: &Contestant<'_, K, V>,
        of: &Items<K, V>,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let ranks: Vec<u64> = (0..of.count / 10).map(|number| of.shuffled(number)).collect();
        let keys: Vec<K> = ranks.iter().map(|&rank| of.key(rank)).collect();
        let (map, snapshot) = (&contestant.map, contestant.map.snapshot());
        // Other values, then those that there were.
        let others: Vec<V> = ranks.iter().map(|&rank| of.absent_value(rank)).collect();
        map.upsert(Upsert::Replace, &keys, &others)?;
        let kept = map.stats()?.pins.first().map_or(0, |pin| pin.bytes);
        drop(snapshot);
        let values: Vec<V> = ranks.iter().map(|&rank| of.value(rank)).collect();
        map.upsert(Upsert::Replace, &keys, &values)?;
        let case = build_case_of(BUILDS[0], self.pairs, self.items);
        let each = kept as f64 / of.count as f64;
        report.add(&case, DEVICE, round, "memory a pair of a snapshot, 10 % changed", Unit::Bytes, each);
        Ok(())
    }

    /// What the map takes after it was built; no time.
    fn memory<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        contestant: &Contestant<'_, K, V>,
        of: &Items<K, V>,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        if contestant.name == DEVICE {
            let stats = contestant.map.stats()?;
            let case = build_case_of(BUILDS[0], self.pairs, self.items);
            let each = stats.bytes as f64 / self.items as f64;
            report.add(&case, DEVICE, round, "memory a pair", Unit::Bytes, each);
            report.add(
                &case,
                DEVICE,
                round,
                "places of leaves that have a pair",
                Unit::Percent,
                100.0 * stats.load,
            );
            self.pin(contestant, of, round, report)?;
        }
        Ok(())
    }

    /// Batches of one size. What they insert is erased again, so that the map stays as it is.
    fn batches<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        contestant: &Contestant<'_, K, V>,
        of: &Items<K, V>,
        len: usize,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let size = len as u64;
        let count = (MOST_OPERATIONS / size).clamp(1, MOST_BATCHES).min(of.count / size);
        let mut seconds = [0.0; CASES.len()];
        for number in 0..count {
            // Other keys in every round.
            let mut turns = Turns { size, next: (u64::from(round) * count + number) * TURNS };
            for (sum, took) in seconds.iter_mut().zip(self.one_of_each(contestant, of, &mut turns)?) {
                *sum += took;
            }
        }
        // The CPU has no kernels.
        for (case, seconds) in CASES.into_iter().zip(seconds).filter(|(_, seconds)| *seconds > 0.0) {
            let case = case_of(case, self.pairs, len, self.items);
            let rate = (count * size) as f64 / seconds;
            report.add(&case, contestant.name, round, RATE, Unit::PerSecond, rate);
            let each = 1e6 * seconds / count as f64;
            report.add(&case, contestant.name, round, "time of a batch", Unit::Micros, each);
        }
        Ok(())
    }

    /// The seconds that a batch of each case takes.
    fn one_of_each<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        contestant: &Contestant<'_, K, V>,
        of: &Items<K, V>,
        turns: &mut Turns,
    ) -> Result<[f64; CASES.len()], BenchError> {
        let run = |batch: &Batch<K, V>| {
            self.progress.check()?;
            contestant.run(batch)
        };
        let find = |turns: &mut Turns| Batch::find(of, &turns.take(of), Operation::Find);
        let find_sorted = |turns: &mut Turns| {
            let mut ranks = turns.take(of);
            ranks.sort_unstable();
            Batch::find(of, &ranks, Operation::FindSorted)
        };
        let finds = [run(&find(turns))?, run(&find_sorted(turns))?];
        let around = [run(&Batch::range(of, &turns.take(of)))?, run(&Batch::successor(of, &turns.take(of)))?];
        let ranks = turns.take(of);
        let changes = [run(&Batch::insert(of, &ranks))?, run(&Batch::erase(of, &ranks))?];

        let ranks = turns.take(of);
        let snapshot = contestant.map.snapshot();
        let first_insert = run(&Batch::insert(of, &ranks))?;
        let at = |batch: &Batch<K, V>| contestant.run_at(batch, Some(&snapshot));
        let pinned = [at(&find(turns))?, at(&find_sorted(turns))?];
        let range_at = at(&Batch::range(of, &turns.take(of)))?;
        // Where pairs were inserted, the snapshot has none of them.
        at(&Batch::range(of, &ranks))?;
        if snapshot.len() != of.count || contestant.map.len() != of.count + ranks.len() as u64 {
            return Err(BenchError::Wrong(format!(
                "{}: after {} inserts the snapshot has {} pairs and the map {}",
                contestant.name,
                ranks.len(),
                snapshot.len(),
                contestant.map.len()
            )));
        }
        drop(snapshot);
        run(&Batch::erase(of, &ranks))?;

        let (mixed, inserted) = Batch::mixed(of, &turns.take(of));
        let mix = run(&mixed)?;
        drop(mixed);
        run(&Batch::erase(of, &inserted))?;
        let mut by_kernel = [0.0; 3];
        if contestant.name == DEVICE {
            let kernels = ByKernel::new::<K>(self.device, self.clock)?;
            let ranks = turns.take(of);
            let insert = Batch::insert(of, &ranks);
            let took = kernels.run(&contestant.map, &insert, &Batch::find_old_and_new(of, &ranks))?;
            by_kernel = [took.insert, took.whole, took.find];
            run(&Batch::erase(of, &ranks))?;
        }
        let ([a, b], [c, d], [e, f], [g, h], [i, j, k]) = (finds, around, changes, pinned, by_kernel);
        Ok([a, b, c, d, e, f, first_insert, g, h, mix, range_at, i, j, k])
    }
}

/// Ranks for one case after the other: a case that asks for the keys of the one before is answered from caches.
struct Turns {
    size: u64,
    next: u64,
}

impl Turns {
    /// Different ranks in a random order. They repeat ranks of an earlier turn only when all ranks of the map were taken.
    fn take<K: OrderedWord, V: OrderedWord>(&mut self, of: &Items<K, V>) -> Vec<u64> {
        let first = self.next * self.size;
        self.next += 1;
        (first..first + self.size).map(|number| of.shuffled(number % of.count)).collect()
    }
}

/// Curves: operations a second over the size of a batch.
fn charts(options: &Options, report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (pairs, items) in options.maps() {
        let batches = options.batches_of(items);
        if batches.len() < 2 {
            continue;
        }
        let curve = |case: &str| {
            let rate = |batch| median(&report.series(&case_of(case, pairs, batch, items), DEVICE, RATE));
            let points = batches.iter().map(|&batch| (batch as f64, 1e-6 * rate(batch))).collect();
            Curve { name: case.to_owned(), points }
        };
        let curves = Drawing::Curves(CASES.map(curve).to_vec());
        let title = format!("ordered map of {items} pairs of {pairs} bytes by batch");
        let chart = Chart::new(title, "operations of a batch", "million a second", curves);
        charts.push(chart.with_scales(Scale::Logarithmic, Scale::Fitting));
    }
    charts
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cases_have_other_keys_until_there_are_no_more() {
        let items = Items::<u32, u32>::new(3, 1000);
        let mut turns = Turns { size: 90, next: 0 };
        let first: HashSet<u64> = (0..TURNS).flat_map(|_| turns.take(&items)).collect();
        assert_eq!(first.len() as u64, 90 * TURNS);
        // A map that is hardly larger than a batch: each batch still has different keys.
        let mut turns = Turns { size: 999, next: 5 };
        assert_eq!(turns.take(&items).into_iter().collect::<HashSet<u64>>().len(), 999);
    }
}
