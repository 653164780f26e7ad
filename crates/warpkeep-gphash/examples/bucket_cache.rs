//! What copies of hot buckets in device memory are worth, as CSV: `bucket_cache DEVICE [ITEMS] [DIRECTORY] [LAYOUT]`. The image lies in
//! the directory, which a GPU wants on tmpfs. Keys have 8 bytes, values 128, and are drawn by Zipf's law with 0.99.
//!
//! Figure 11 of the paper: rate and hit rate by policy and share of the buckets, for YCSB C (gets) and A (half updates). An update of a key
//! that the batch updates again is left out, as the planner of a store does; it counts as done. Figure 15: the rate over time while the
//! cache is loaded, with gets going on and with gets waiting.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use warpkeep_core::{KeySpec, MergeRule, Op, Seed, Status, ValueSpec, mix64};
use warpkeep_device::{Buffer, Device, DeviceChoice, DevicePtr, Stream};
use warpkeep_gphash::gpu::{CachePolicy, DeviceBatch, DeviceEngine, DeviceImage, GetRows};
use warpkeep_gphash::{Geometry, Layout, Table, TableError, TableSpec};
use warpkeep_image::{Coherent, CreateOptions, Heap, HeapOptions, Image};

const VALUE: usize = 128;
const SKEW: f64 = 0.99;
const ROUNDS: usize = 4;
const POLICIES: [CachePolicy; 3] = [CachePolicy::Lfu, CachePolicy::Lru, CachePolicy::Random];
const STEP: Duration = Duration::from_millis(10);

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let mut arguments = std::env::args().skip(1);
    let device = Device::open(arguments.next().as_deref().unwrap_or("sim").parse()?)?;
    let simulated = device.choice() == DeviceChoice::Sim;
    let default_items = if simulated { 1 << 13 } else { 1 << 24 };
    let items: u64 = arguments.next().map_or(Ok(default_items), |text| text.parse())?;
    let directory = arguments.next().unwrap_or_else(|| "/dev/shm".into());
    let layout: Layout = arguments.next().as_deref().unwrap_or("packed").parse()?;
    let folder = tempfile::Builder::new().prefix("warpkeep-cache-").tempdir_in(Path::new(&directory))?;
    let image = Image::create(&folder.path().join("image"), Coherent, &CreateOptions::default())?;
    image.begin(1)?;
    let image = Arc::new(image);
    let heap = Arc::new(Heap::recover::<TableError>(&image, HeapOptions::default(), |_| Ok(()))?);
    let spec = TableSpec {
        key: KeySpec::U64,
        value: ValueSpec::fixed(VALUE as u32)?,
        geometry: Geometry::default(),
        capacity: items,
        layout,
        merge: MergeRule::None,
        seed: Seed(1),
    };
    let table = Table::create(&heap, &spec)?;
    let on_device = Arc::new(DeviceImage::new(&device, &image)?);
    let engine = DeviceEngine::new(&on_device, &table)?;
    let batch = if simulated { 1 << 12 } else { 1 << 20 }.min(items as usize);
    let mut bench = Bench::new(&table, &engine, items, batch)?;
    bench.fill()?;
    println!("figure,workload,policy,share,time_ms,million_per_second,million_per_second_kernel,hit_rate");
    let shares: &[u32] =
        if simulated { &[0, 20, 100] } else { &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100] };
    for updates in [false, true] {
        for policy in POLICIES {
            for &share in shares {
                bench.figure_11(updates, policy, share)?;
            }
        }
    }
    for share in [20, 100] {
        for beside in [true, false] {
            bench.figure_15(share, beside)?;
        }
    }
    Ok(())
}

/// Numbers of keys by Zipf's law: how likely one up to each is.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(items: u64) -> Zipf {
        let mut sum = 0.0;
        let up_to = |rank: u64| {
            sum += (rank as f64).powf(-SKEW);
            sum
        };
        Zipf((1..=items).map(up_to).collect())
    }

    fn draw(&self, dice: u64) -> u64 {
        let all = self.0.last().copied().unwrap_or_default();
        let drawn = mix64(Seed(7), dice) as f64 / u64::MAX as f64 * all;
        (self.0.partition_point(|&up_to| up_to < drawn) as u64).min(self.0.len() as u64 - 1)
    }
}

fn key(number: u64) -> u64 {
    mix64(Seed(3), number)
}

/// Keys in device memory, and where answers go.
struct Gets {
    keys: Buffer,
    statuses: Buffer,
    values: Buffer,
    count: usize,
}

impl Gets {
    fn new(device: &Device, numbers: &[u64]) -> Result<Gets, Box<dyn Error>> {
        let keys: Vec<u64> = numbers.iter().map(|&number| key(number)).collect();
        Ok(Gets {
            keys: device.upload(&keys)?,
            statuses: device.allocate(numbers.len().max(1))?,
            values: device.allocate(numbers.len().max(1) * VALUE)?,
            count: numbers.len(),
        })
    }

    fn rows(&self) -> GetRows {
        GetRows {
            count: self.count as u64,
            keys: self.keys.ptr(),
            statuses: self.statuses.ptr(),
            versions: DevicePtr::NULL,
            values: self.values.ptr(),
        }
    }

    /// Looks them up; how long it took.
    fn run(
        &self,
        table: &Table<Coherent>,
        engine: &DeviceEngine<Coherent>,
        stream: &Stream,
    ) -> Result<Duration, TableError> {
        let begun = Instant::now();
        // SAFETY: the buffers are as long as the rows say, and live on.
        unsafe { engine.get_rows(table, &self.rows(), stream)? }.finish()?;
        Ok(begun.elapsed())
    }

    fn all_found(&self) -> Result<bool, TableError> {
        let statuses = self.statuses.to_vec::<u8>()?;
        Ok(statuses[..self.count].iter().all(|&status| status == Status::Ok as u8))
    }
}

struct Bench<'b> {
    table: &'b Table<Coherent>,
    engine: &'b DeviceEngine<Coherent>,
    stream: Stream,
    items: u64,
    batch: usize,
    /// Keys drawn, in batches, so that all runs do the same.
    drawn: Vec<Vec<u64>>,
    version: u64,
}

impl<'b> Bench<'b> {
    fn new(
        table: &'b Table<Coherent>,
        engine: &'b DeviceEngine<Coherent>,
        items: u64,
        batch: usize,
    ) -> Result<Bench<'b>, Box<dyn Error>> {
        let zipf = Zipf::new(items);
        let draw = |round: usize| (0..batch).map(|index| zipf.draw((round * batch + index) as u64)).collect();
        let drawn = (0..ROUNDS).map(draw).collect();
        Ok(Bench { table, engine, stream: engine.device().stream()?, items, batch, drawn, version: 0 })
    }

    /// Puts or updates these keys; how long all of it took, and the kernels.
    fn write(&mut self, op: Op, numbers: &[u64]) -> Result<(Duration, Duration), Box<dyn Error>> {
        let keys: Vec<[u8; 8]> = numbers.iter().map(|&number| key(number).to_le_bytes()).collect();
        let value = [self.version as u8; VALUE];
        let mut batch = DeviceBatch::default();
        keys.iter().for_each(|key| batch.push(op, key, &value, 0));
        let first_version = self.version + 1;
        self.version += numbers.len() as u64;
        let begun = Instant::now();
        let mut turn = self.engine.turn();
        let mut stage = turn.stage(self.table, &batch, first_version)?;
        let staged = stage.kernel_time();
        let done = stage.statuses().iter().all(|status| matches!(status, Status::Ok | Status::Created));
        assert!(done, "every key has its place");
        let publishing = Instant::now();
        stage.publish()?;
        Ok((begun.elapsed(), staged + publishing.elapsed()))
    }

    fn fill(&mut self) -> Done {
        let all: Vec<u64> = (0..self.items).collect();
        for some in all.chunks(1 << 20) {
            self.write(Op::Put, some)?;
        }
        Ok(())
    }

    /// One batch of the workload; how long all of it took, and the kernels.
    fn step(&mut self, updates: bool, round: usize) -> Result<(Duration, Duration), Box<dyn Error>> {
        let drawn = self.drawn[round % ROUNDS].clone();
        let (read, written) = drawn.split_at(if updates { self.batch / 2 } else { self.batch });
        let gets = Gets::new(self.engine.device(), read)?;
        let took = gets.run(self.table, self.engine, &self.stream)?;
        assert!(gets.all_found()?, "every key is there");
        if written.is_empty() {
            return Ok((took, took));
        }
        let mut written = written.to_vec();
        // By where they lie, as the planner orders them, and not by how hot they are.
        written.sort_unstable_by_key(|&number| key(number));
        written.dedup();
        let (whole, kernels) = self.write(Op::Update, &written)?;
        Ok((took + whole, took + kernels))
    }

    fn figure_11(&mut self, updates: bool, policy: CachePolicy, share: u32) -> Done {
        // Nothing is known of what is hot at first.
        self.engine.load_cache(self.table, 0.0, CachePolicy::Random)?;
        self.engine.load_cache(self.table, 0.0, policy)?;
        for round in 0..ROUNDS {
            self.step(updates, round)?;
        }
        let report = self.engine.load_cache(self.table, f64::from(share) / 100.0, policy)?;
        let before = self.engine.cache_stats()?;
        let (mut whole, mut kernels) = (Duration::ZERO, Duration::ZERO);
        for round in 0..ROUNDS {
            let (took, on_device) = self.step(updates, round)?;
            whole += took;
            kernels += on_device;
        }
        let after = self.engine.cache_stats()?;
        let lookups = (after.lookups - before.lookups).max(1);
        let rate = |took: Duration| (ROUNDS * self.batch) as f64 / took.as_secs_f64() / 1e6;
        println!(
            "11,{},{policy:?},{:.2},,{:.2},{:.2},{:.4}",
            if updates { "A" } else { "C" },
            report.cached as f64 / report.buckets as f64,
            rate(whole),
            rate(kernels),
            (after.hits - before.hits) as f64 / lookups as f64
        );
        Ok(())
    }

    /// Gets, and a load in their midst, which they do not wait for, or do.
    fn figure_15(&mut self, share: u32, beside: bool) -> Done {
        self.engine.load_cache(self.table, 0.0, CachePolicy::Random)?;
        self.engine.load_cache(self.table, 0.0, CachePolicy::Lfu)?;
        let (table, engine) = (self.table, self.engine);
        let gets = Gets::new(engine.device(), &self.drawn[0][..self.batch.div_ceil(16)])?;
        let (gate, over) = (RwLock::new(()), AtomicBool::new(false));
        let begun = Instant::now();
        let (times, loaded) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut times = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let _gate = (!beside).then(|| gate.read());
                    gets.run(table, engine, &self.stream)?;
                    times.push(begun.elapsed());
                }
                Ok::<_, TableError>(times)
            });
            std::thread::sleep(10 * STEP);
            let from = begun.elapsed();
            let gate = (!beside).then(|| gate.write());
            let report = engine.load_cache(table, f64::from(share) / 100.0, CachePolicy::Lfu);
            drop(gate);
            let loaded = report.map(|report| (from, begun.elapsed(), report));
            std::thread::sleep(10 * STEP);
            over.store(true, Ordering::Relaxed);
            (reader.join().expect("the reader does not panic"), loaded)
        });
        let (times, (from, to, report)) = (times?, loaded?);
        let workload = if beside { "gets go on" } else { "gets wait" };
        let share = report.cached as f64 / report.buckets as f64;
        for step in 0..times.last().map_or(0, |last| last.as_millis() / STEP.as_millis()) as u32 {
            let (first, end) = (STEP * step, STEP * (step + 1));
            let done = times.iter().filter(|&&time| time >= first && time < end).count() * gets.count;
            let rate = done as f64 / STEP.as_secs_f64() / 1e6;
            let phase = if end <= from {
                "before"
            } else if first >= to {
                "after"
            } else {
                "loading"
            };
            println!("15,{workload} ({phase}),Lfu,{share:.2},{},{rate:.2},,", first.as_millis());
        }
        Ok(())
    }
}
