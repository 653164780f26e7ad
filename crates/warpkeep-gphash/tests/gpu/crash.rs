//! Power fails at every step of the kernels that write: each state that a crash could leave is opened and checked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use warpkeep_core::{BatchView, Cells, Columns, Op, Results};
use warpkeep_device::Device;
use warpkeep_device::sim::{CrashImage, Mode, Place, Seeded, StoreRecord, TraceKind};
use warpkeep_gphash::gpu::{FusedRows, HostStep, HostWrites};
use warpkeep_gphash::{Geometry, Table};
use warpkeep_image::Coherent;
use warpkeep_suites::device::Recording;

use crate::harness::{Dice, Harness, KeyColumn, Model, POOL, batch_of, expect};
use crate::rig::{Kind, get, heap, put, remove};
use crate::snapshot::{bytes_of, table_of};

/// The keys of the scripts: enough to make a small table grow.
pub(crate) const KEYS: u64 = 36;

/// The work on a table while stores are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// Two-phase writes of all operations.
    TwoPhase,
    /// A growth that drains level and overflow bucket by bucket, with two-phase writes in between.
    Drain,
    /// Fused writes in one chunk.
    Fused,
    /// Fused writes in several chunks.
    FusedInChunks,
    /// The same, with slot words and record trailers stored by the host.
    PublishedByHost,
    /// The same from host memory, with values stored by the host, too.
    FromHost,
}

impl Script {
    /// The kinds of tables that it runs on.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Script::PublishedByHost => &[Kind::Packed, Kind::Tiled, Kind::Wide, Kind::OddTiled],
            Script::FromHost => &[Kind::Tiled, Kind::TiledCells],
            _ if self.is_fused() => &[Kind::Packed, Kind::Tiled, Kind::Wide, Kind::TiledCells],
            _ => &Kind::ALL,
        }
    }

    fn is_fused(self) -> bool {
        matches!(self, Script::Fused | Script::FusedInChunks | Script::PublishedByHost | Script::FromHost)
    }

    /// Whether the host stores slot words.
    fn is_published_by_host(self) -> bool {
        matches!(self, Script::PublishedByHost | Script::FromHost)
    }
}

/// A recorded run.
pub(crate) struct Recorded {
    pub(crate) kind: Kind,
    header: u64,
    recording: Recording,
    /// For each batch the step before its publishing, the step at which it was acknowledged, and the items after it.
    models: Vec<(u64, u64, Model)>,
}

/// A table with items, some of them replaced, and with blocks that other records used before.
pub(crate) fn filled(kind: Kind, geometry: Geometry, capacity: u64, items: u64) -> (Table<Coherent>, Model) {
    let heap = heap(24);
    let table = Table::create(&heap, &kind.spec(geometry, capacity)).unwrap();
    let mut model = Model::new();
    for number in (0..KEYS).chain(0..items) {
        let version = model.len() as u64 + 1;
        put(&table, &kind.key(number), &kind.value(number, version), version).unwrap();
        model.insert(number, (version, kind.value(number, version)));
        if number >= items {
            remove(&table, &kind.key(number));
            model.remove(&number);
        }
    }
    (0..8).for_each(|_| table.heap().reclaim());
    (table, model)
}

fn now(device: &Device) -> u64 {
    device.last_run().map_or(0, |report| report.now)
}

/// The step at which the last batch reported its result: a lane stores eight words in order, of which the last is 1, to
/// memory outside the image.
fn reported_at(device: &Device) -> u64 {
    let trace = device.simulator().unwrap().take_trace();
    let mut words = BTreeMap::new();
    for event in trace.iter().filter(|event| event.kind == TraceKind::Store) {
        let lane = (event.block, event.thread, event.region);
        let next = words.entry(lane).or_insert(0);
        *next = if event.offset == *next { *next + 8 } else { 8 * u64::from(event.offset == 0) };
        if *next == 64 && event.value == 1 {
            return event.step;
        }
    }
    panic!("no result was reported");
}

/// The number of buckets that a growth has to drain.
pub(crate) fn outgoing(table: &Table<Coherent>) -> u64 {
    let stats = table.stats();
    let old_overflows: u64 = stats.overflow[1..].iter().map(|overflow| overflow.buckets).sum();
    let drained = stats.levels.len() - table.geometry().levels();
    let levels = &stats.levels[stats.levels.len() - drained..];
    old_overflows + levels.iter().map(|level| level.buckets).sum::<u64>()
}

/// Begins a growth, and waits until items may move.
pub(crate) fn begin_growth(table: &Table<Coherent>) {
    table.begin_growth().unwrap();
    while !table.may_drain() {
        table.heap().reclaim();
        std::thread::yield_now();
    }
}

/// Runs a script on the simulator, and records it.
pub(crate) fn record(kind: Kind, script: Script, seed: u64) -> Recorded {
    // Frequent interruptions produce more orders of stores.
    let mode = Seeded { switch_chance: 400, trace: script == Script::Fused, ..Seeded::new(seed) };
    let device = Device::simulated(Mode::Seeded(mode)).unwrap();
    let one_level = Geometry::new(1, 4, 8).expect("a geometry");
    let ((table, model), slice) = match (script, seed % 2) {
        (Script::TwoPhase, _) => (filled(kind, Geometry::default(), 20, 12), 0),
        (Script::Fused | Script::FusedInChunks | Script::PublishedByHost | Script::FromHost, _) => {
            (filled(kind, Geometry::default(), 100, 12), 0)
        }
        // Fills the levels, and puts a few items into the overflow.
        (Script::Drain, 0) => (filled(kind, Geometry::default(), 1, 28), 1),
        // Drains several buckets at once.
        (Script::Drain, _) => (filled(kind, one_level, 20, 20), 3),
    };
    if script.is_fused() {
        // Space for the slab of the block pool: an image that grows would have two regions.
        let heap = table.heap();
        heap.free_extent(heap.allocate_extent(4 * heap.image().chunk_size()).unwrap()).unwrap();
    }
    if script == Script::Drain {
        begin_growth(&table);
        let overflowed = table.stats().overflow[1].used;
        assert!(seed % 2 == 1 || overflowed > 0, "the old overflow is empty");
    }
    let mut harness = Harness::over(&device, kind, table);
    harness.version = model.len() as u64;
    harness.model = model;
    let mut dice = Dice::new(seed);
    if script != Script::Fused {
        harness.engine.adjust(|profile| profile.chunk_operations = 2);
    }
    // The stores and fences of the host, and their steps.
    let host: Arc<Mutex<Vec<(u64, HostStep)>>> = Arc::default();
    if script.is_published_by_host() {
        let (device, host) = (device.clone(), Arc::clone(&host));
        harness.engine.observe_publish(move |step| host.lock().unwrap().push((now(&device), step)));
    }
    if script.is_fused() {
        // The first batch fills the block pool for all batches that follow.
        harness.engine.build_index(&harness.table).unwrap();
        write_fused(&mut harness, &device, Op::Put, &[0]);
        device.simulator().unwrap().take_store_log();
        device.simulator().unwrap().take_trace();
        host.lock().unwrap().clear();
    }
    let before = bytes_of(harness.table.heap().image());
    let mut models = vec![(0, now(&device), harness.model.clone())];
    let buckets = match script {
        Script::TwoPhase
        | Script::Fused
        | Script::FusedInChunks
        | Script::PublishedByHost
        | Script::FromHost => 0,
        Script::Drain => outgoing(&harness.table),
    };
    let rounds = match script {
        Script::TwoPhase => 3,
        Script::Fused | Script::FusedInChunks | Script::PublishedByHost | Script::FromHost => 5,
        Script::Drain => buckets.div_ceil(slice),
    };
    for round in 0..rounds {
        if script == Script::Drain {
            // Stops before the end of the growth, which the host would record in the image.
            let slice = slice.min(buckets - round * slice);
            harness.engine.write_lock().maintain(&harness.table, slice).unwrap();
        }
        if script.is_fused() {
            let op = [Op::Put, Op::Delete, Op::Insert, Op::Update, Op::Put][round as usize];
            // The last batch of this script has more operations than one block writes.
            let numbers: Vec<u64> = match (script, round) {
                (Script::Fused, 4) => (0..KEYS).collect(),
                _ => (0..9).map(|_| dice.below(KEYS)).collect(),
            };
            let begin = now(&device);
            match script == Script::FromHost && op != Op::Delete {
                true => write_from_host(&mut harness, op, &numbers),
                false => write_fused(&mut harness, &device, op, &numbers),
            }
            // The result of a small batch acknowledges it, before the launch has ended.
            let end = if script == Script::Fused { reported_at(&device) } else { now(&device) };
            models.push((begin, end, harness.model.clone()));
        } else {
            publish_one(&mut harness, &device, &mut dice, &mut models);
        }
    }
    let [(region, 0)] = harness.image.regions()[..] else { panic!("the image has grown") };
    let mut log = device.simulator().unwrap().take_store_log();
    let host = std::mem::take(&mut *host.lock().unwrap());
    assert_eq!(host.is_empty(), !script.is_published_by_host(), "the host publishes in other scripts");
    assert_eq!(
        harness.engine.stored_by_host() > 0,
        script == Script::FromHost,
        "the host stores values in other scripts"
    );
    // Kernels count the steps. They are multiplied so that the host's stores between two launches get steps in between.
    for store in &mut log {
        store.issued *= HOST_STEPS;
        store.arrived = store.arrived.map(|step| step * HOST_STEPS);
        store.fenced = store.fenced.map(|step| step * HOST_STEPS);
    }
    models.iter_mut().for_each(|(begin, end, _)| (*begin, *end) = (*begin * HOST_STEPS, *end * HOST_STEPS));
    let stored = stored_by_host(&host, region);
    log.extend(stored);
    log.sort_by_key(|store| store.issued);
    let (header, end) = (harness.table.header(), now(&device) * HOST_STEPS);
    let boundaries = models.iter().flat_map(|&(begin, end, _)| [begin, end]).collect();
    let recording = Recording { before, region, log, boundaries, end };
    // The log has all stores to the image.
    let whole = CrashImage::new(&recording.before, region, &recording.log, end);
    assert_eq!(whole.open_stores(), 0, "the end of a launch orders everything");
    assert!(whole.sample(0) == bytes_of(harness.table.heap().image()), "the log misses stores");
    Recorded { kind, header, recording, models }
}

/// Steps for the host between two steps of a kernel.
const HOST_STEPS: u64 = 256;

/// The stores of the host between launches. A crash keeps the stores of the launch before, the host's stores before its
/// last fence, and any of its stores since.
fn stored_by_host(host: &[(u64, HostStep)], region: warpkeep_device::sim::RegionId) -> Vec<StoreRecord> {
    let mut stored = Vec::new();
    for between in host.chunk_by(|one, next| one.0 == next.0) {
        let mut issued = between[0].0 * HOST_STEPS + 1;
        for &(when, step) in between {
            match step {
                HostStep::Fence => issued += 2,
                HostStep::Store(offset, word) => stored.push(StoreRecord {
                    region,
                    offset,
                    bytes: word.to_le_bytes().to_vec(),
                    issued,
                    arrived: Some(issued + 1),
                    fenced: Some(issued + 1),
                    epoch: 0,
                    block: 0,
                    thread: 0,
                    place: Place { file: String::new(), line: 0 },
                }),
            }
            assert!(issued < (when + 1) * HOST_STEPS, "HOST_STEPS is too small");
        }
        assert_eq!(
            between.last().map(|last| last.1),
            Some(HostStep::Fence),
            "the last stores are not fenced"
        );
    }
    stored
}

/// Runs a small fused write from device memory.
fn write_fused(harness: &mut Harness, device: &Device, op: Op, numbers: &[u64]) {
    let keys: Vec<u8> = numbers.iter().flat_map(|&number| harness.kind.key_row(number)).collect();
    let first = harness.version + 1;
    let values: Vec<u8> = numbers
        .iter()
        .zip(first..)
        .flat_map(|(&number, version)| harness.kind.value(number, version))
        .collect();
    let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let statuses = device.allocate_zeroed(numbers.len()).unwrap();
    let rows = FusedRows {
        op,
        count: numbers.len() as u64,
        keys: keys.ptr(),
        values: values.ptr(),
        statuses: statuses.ptr(),
    };
    // SAFETY: the columns have `count` rows and are used by this call only.
    let written = unsafe {
        let stream = device.stream().unwrap();
        harness
            .engine
            .write_lock()
            .write_fused(&harness.table, &rows, first, &stream)
            .unwrap()
            .expect("a fused write")
    };
    assert_eq!(written.by_cpu, 0, "stores of the CPU are not recorded");
    update_model(harness, op, numbers);
}

/// Runs a small fused write from host memory.
fn write_from_host(harness: &mut Harness, op: Op, numbers: &[u64]) {
    let (kind, first) = (harness.kind, harness.version + 1);
    let values: Vec<u8> =
        numbers.iter().zip(first..).flat_map(|(&number, version)| kind.value(number, version)).collect();
    let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
    let keys = KeyColumn::of(key, numbers.iter().map(|&number| kind.key(number)));
    let columns = Columns::with_values(op, keys.cells(), Cells::fixed(value.max_len(), &values));
    let view = BatchView::new(key, value, columns).unwrap();
    let (mut results, mut done) = (Results::new(&view), 0);
    let writes = HostWrites { op, batch: view.host().unwrap(), pool: &POOL, at_once: 0 };
    harness
        .engine
        .write_lock()
        .write_from_host(&harness.table, &writes, first, &mut results, &mut done)
        .unwrap();
    assert_eq!(done, numbers.len());
    update_model(harness, op, numbers);
}

/// Applies a batch to the model.
fn update_model(harness: &mut Harness, op: Op, numbers: &[u64]) {
    let first = harness.version + 1;
    for (&number, version) in numbers.iter().zip(first..) {
        let is_present = harness.model.contains_key(&number);
        match op {
            Op::Delete => drop(harness.model.remove(&number)),
            Op::Insert if is_present => {}
            Op::Update if !is_present => {}
            _ => drop(harness.model.insert(number, (version, harness.kind.value(number, version)))),
        }
    }
    harness.version += numbers.len() as u64;
}

/// Runs a small two-phase write, and adds the steps between which it was published.
fn publish_one(harness: &mut Harness, device: &Device, dice: &mut Dice, models: &mut Vec<(u64, u64, Model)>) {
    let rows: Vec<_> = harness.rows(dice, KEYS, 7);
    let first_version = harness.version + 1;
    harness.version += rows.len() as u64;
    let batch = batch_of(&rows);
    let mut lock = harness.engine.write_lock();
    let mut stage = lock.stage(&harness.table, &batch, first_version).unwrap();
    let begin = now(device);
    for (index, row) in rows.iter().enumerate() {
        // An operation without a slot has no effect.
        if stage.change(index).is_none() {
            continue;
        }
        match expect(row, harness.model.get(&row.number), first_version + index as u64).2 {
            Some(Some(value)) => {
                harness.model.insert(row.number, (first_version + index as u64, value));
            }
            Some(None) => {
                harness.model.remove(&row.number);
            }
            None => panic!("{row:?} should have no effect"),
        }
    }
    stage.publish().unwrap();
    models.push((begin, now(device), harness.model.clone()));
}

/// Opens the images that crashes could leave; returns their number, or the first failure.
pub(crate) fn explore(recorded: &Recorded, samples: u64) -> Result<u64, String> {
    recorded
        .recording
        .explore(samples, |step, bytes, image| {
            // Work after recovery takes longer than the rest of the check.
            check(recorded, step, bytes, image % 8 == 0)
        })
        .map_err(|what| format!("a crash of {:?} after {what}", recorded.kind))
}

/// Opens the image that a crash at this step left, and checks it; with `then_work` also works on it.
fn check(recorded: &Recorded, step: u64, bytes: &[u8], then_work: bool) -> Result<(), String> {
    let kind = recorded.kind;
    let table = table_of(bytes, recorded.header, if then_work { 16 } else { 0 })
        .map_err(|error| error.to_string())?;
    let found: Model =
        (0..KEYS).filter_map(|number| Some((number, get(&table, &kind.key(number))?))).collect();
    let acknowledged = recorded.models.iter().rposition(|&(_, end, _)| end <= step).unwrap_or(0);
    let old = &recorded.models[acknowledged].2;
    let new =
        recorded.models.get(acknowledged + 1).filter(|&&(begin, ..)| begin < step).map(|model| &model.2);
    for number in 0..KEYS {
        let item = found.get(&number);
        if item != old.get(&number) && new.is_none_or(|new| item != new.get(&number)) {
            return Err(format!(
                "key {number} has {item:?}, not {:?}, nor {:?}",
                old.get(&number),
                new.map(|new| new.get(&number))
            ));
        }
    }
    check_whole(&table, kind, &found)?;
    if then_work {
        // The recovered table accepts writes, and a growth that was under way finishes.
        let mut found = found;
        for number in (0..KEYS).step_by(5) {
            put(&table, &kind.key(number), &kind.value(number, 999), 999)
                .map_err(|error| error.to_string())?;
            found.insert(number, (999, kind.value(number, 999)));
            remove(&table, &kind.key(number + 1));
            found.remove(&(number + 1));
        }
        table.grow().map_err(|error| error.to_string())?;
        let after = (0..KEYS).filter_map(|number| Some((number, get(&table, &kind.key(number))?)));
        if after.collect::<Model>() != found {
            return Err("work after recovery went wrong".to_owned());
        }
    }
    Ok(())
}

/// Checks that a table that was just opened has exactly these items, each once.
pub(crate) fn check_whole(table: &Table<Coherent>, kind: Kind, items: &Model) -> Result<(), String> {
    if table.len() != items.len() as u64 {
        return Err(format!("{} items counted, {} found", table.len(), items.len()));
    }
    let inspection =
        Table::inspect(table.heap().image(), table.header()).map_err(|error| error.to_string())?;
    if !inspection.is_clean() || (inspection.unfinished, inspection.moving) != (0, 0) {
        return Err(format!("{inspection:?}"));
    }
    let usage = table.heap().usage();
    if usage.used_blocks() != 2 + kind.blocks() * items.len() as u64 {
        return Err(format!("{} items, but {usage} is in use", items.len()));
    }
    let numbers: BTreeMap<_, _> = (0..KEYS).map(|number| (kind.key(number), number)).collect();
    let mut scanned = Model::new();
    table.scan_checked::<String>(1, |item| {
        let change = item.map_err(ToString::to_string)?;
        let number = numbers.get(change.key).ok_or("a key that was never put")?;
        match scanned.insert(*number, (change.version, change.value.to_vec())) {
            None => Ok(()),
            Some(_) => Err(format!("key {number} occurs twice")),
        }
    })?;
    if &scanned == items { Ok(()) } else { Err(format!("{items:?} found, but {scanned:?} scanned")) }
}
