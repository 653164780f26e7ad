//! The power goes at every step of the kernels that write: what each crash could leave is opened and checked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use warpkeep_core::{BatchView, Cells, Columns, Op, Results};
use warpkeep_device::Device;
use warpkeep_device::sim::{CrashImage, Mode, Place, Seeded, StoreRecord, TraceKind};
use warpkeep_gphash::gpu::{HostStep, HostWrites, StraightRows};
use warpkeep_gphash::{Geometry, Table};
use warpkeep_image::Coherent;
use warpkeep_suites::device::Recording;

use crate::bench::{Bench, Dice, KeyColumn, Model, POOL, batch_of, expect};
use crate::rig::{Kind, get, heap, put, remove};
use crate::snapshot::{bytes_of, table_of};

/// Keys that scripts use; with these even a small table has to grow.
pub(crate) const KEYS: u64 = 36;

/// What is done to a table while stores are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// Batches of all operations.
    Batches,
    /// The same while a growth drains level and overflow, bucket by bucket.
    Drain,
    /// Batches written straight through.
    Straight,
    /// The same, in parts.
    Parts,
    /// The same, with words that the host stores, and tails of records in tiles.
    Words,
    /// The same from host memory: with values, too.
    Values,
}

impl Script {
    /// The kinds of tables it is for.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Script::Words => &[Kind::Packed, Kind::Tiled, Kind::Wide, Kind::OddTiled],
            Script::Values => &[Kind::Tiled, Kind::TiledCells],
            _ if self.is_straight() => &[Kind::Packed, Kind::Tiled, Kind::Wide, Kind::TiledCells],
            _ => &Kind::ALL,
        }
    }

    fn is_straight(self) -> bool {
        matches!(self, Script::Straight | Script::Parts | Script::Words | Script::Values)
    }

    /// Whether the host stores words.
    fn is_with_host(self) -> bool {
        matches!(self, Script::Words | Script::Values)
    }
}

/// A run that was recorded.
pub(crate) struct Recorded {
    pub(crate) kind: Kind,
    header: u64,
    recording: Recording,
    /// What the table holds from a step on, and the step after which a batch began to be published that leads to it.
    models: Vec<(u64, u64, Model)>,
}

/// A table with items, half of them changed since, and space that was used before.
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

/// The step at which the last batch told what it came to: a lane stores eight words one after the other, of which the last is 1, to memory that is not the image.
fn told_at(device: &Device) -> u64 {
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
    panic!("nobody was told");
}

/// Buckets that are being drained.
pub(crate) fn outgoing(table: &Table<Coherent>) -> u64 {
    let stats = table.stats();
    let old_overflows: u64 = stats.overflow[1..].iter().map(|overflow| overflow.buckets).sum();
    let drained = stats.levels.len() - table.geometry().levels();
    let levels = &stats.levels[stats.levels.len() - drained..];
    old_overflows + levels.iter().map(|level| level.buckets).sum::<u64>()
}

/// Begins a growth, and waits until items may be moved.
pub(crate) fn begin_growth(table: &Table<Coherent>) {
    table.begin_growth().unwrap();
    while !table.may_drain() {
        table.heap().reclaim();
        std::thread::yield_now();
    }
}

/// Runs a script on the simulator, and records it.
pub(crate) fn record(kind: Kind, script: Script, seed: u64) -> Recorded {
    // Interrupted more often than usual: it is orders that matter here.
    let mode = Seeded { switch_chance: 400, trace: script == Script::Straight, ..Seeded::new(seed) };
    let device = Device::simulated(Mode::Seeded(mode)).unwrap();
    let one_level = Geometry::new(1, 4, 8).expect("a geometry");
    let ((table, model), slice) = match (script, seed % 2) {
        (Script::Batches, _) => (filled(kind, Geometry::default(), 20, 12), 0),
        (Script::Straight | Script::Parts | Script::Words | Script::Values, _) => {
            (filled(kind, Geometry::default(), 100, 12), 0)
        }
        // As many as there is room for, and a few more in the overflow.
        (Script::Drain, 0) => (filled(kind, Geometry::default(), 1, 28), 1),
        // Several buckets at the same time.
        (Script::Drain, _) => (filled(kind, one_level, 20, 20), 3),
    };
    if script.is_straight() {
        // Room for the slab that is taken then: an image that grows lies in two pieces.
        let heap = table.heap();
        heap.free_extent(heap.allocate_extent(4 * heap.image().chunk_size()).unwrap()).unwrap();
    }
    if script == Script::Drain {
        begin_growth(&table);
        let overflowed = table.stats().overflow[1].used;
        assert!(seed % 2 == 1 || overflowed > 0, "the old overflow is empty");
    }
    let mut bench = Bench::over(&device, kind, table);
    bench.version = model.len() as u64;
    bench.model = model;
    let mut dice = Dice(seed);
    if script != Script::Straight {
        bench.engine.adjust(|profile| profile.chunk_operations = 2);
    }
    // What the host did, and when.
    let host: Arc<Mutex<Vec<(u64, HostStep)>>> = Arc::default();
    if script.is_with_host() {
        let (device, host) = (device.clone(), Arc::clone(&host));
        bench.engine.observe_words(move |step| host.lock().unwrap().push((now(&device), step)));
    }
    if script.is_straight() {
        // The host takes blocks for this batch and many more to come.
        bench.engine.load_mirror(&bench.table).unwrap();
        straight_one(&mut bench, &device, Op::Put, &[0]);
        device.simulator().unwrap().take_store_log();
        device.simulator().unwrap().take_trace();
        host.lock().unwrap().clear();
    }
    let before = bytes_of(bench.table.heap().image());
    let mut models = vec![(0, now(&device), bench.model.clone())];
    let left = match script {
        Script::Batches | Script::Straight | Script::Parts | Script::Words | Script::Values => 0,
        Script::Drain => outgoing(&bench.table),
    };
    let turns = match script {
        Script::Batches => 3,
        Script::Straight | Script::Parts | Script::Words | Script::Values => 5,
        Script::Drain => left.div_ceil(slice),
    };
    for turn in 0..turns {
        if script == Script::Drain {
            // Not beyond the end: then the host would write that the growth is over.
            let buckets = slice.min(left - turn * slice);
            bench.engine.turn().maintain(&bench.table, buckets).unwrap();
        }
        if script.is_straight() {
            let op = [Op::Put, Op::Delete, Op::Insert, Op::Update, Op::Put][turn as usize];
            // The last of those that tell are more than one block writes.
            let numbers: Vec<u64> = match (script, turn) {
                (Script::Straight, 4) => (0..KEYS).collect(),
                _ => (0..9).map(|_| dice.below(KEYS)).collect(),
            };
            let began = now(&device);
            match script == Script::Values && op != Op::Delete {
                true => straight_from_host(&mut bench, op, &numbers),
                false => straight_one(&mut bench, &device, op, &numbers),
            }
            // The host goes on as soon as it is told what a small batch came to, and not when the launch is over.
            let ended = if script == Script::Straight { told_at(&device) } else { now(&device) };
            models.push((began, ended, bench.model.clone()));
        } else {
            publish_one(&mut bench, &device, &mut dice, &mut models);
        }
    }
    let [(region, 0)] = bench.image.regions()[..] else { panic!("the image has grown") };
    let mut log = device.simulator().unwrap().take_store_log();
    let host = std::mem::take(&mut *host.lock().unwrap());
    assert_eq!(host.is_empty(), !script.is_with_host(), "who stores words?");
    assert_eq!(bench.engine.stored_by_host() > 0, script == Script::Values, "who stores values?");
    // Steps are those of kernels. What the host does between two launches comes between two steps, so these are spread out.
    for store in &mut log {
        store.issued *= SPREAD;
        store.arrived = store.arrived.map(|step| step * SPREAD);
        store.fenced = store.fenced.map(|step| step * SPREAD);
    }
    models.iter_mut().for_each(|(began, ended, _)| (*began, *ended) = (*began * SPREAD, *ended * SPREAD));
    let stored = stored_by_host(&host, region);
    log.extend(stored);
    log.sort_by_key(|store| store.issued);
    let (header, end) = (bench.table.header(), now(&device) * SPREAD);
    let boundaries = models.iter().flat_map(|&(began, ended, _)| [began, ended]).collect();
    let recording = Recording { before, region, log, boundaries, end };
    // Nobody else stored anything, so the log tells all of it.
    let whole = CrashImage::new(&recording.before, region, &recording.log, end);
    assert_eq!(whole.open_stores(), 0, "the end of a launch orders everything");
    assert!(whole.sample(0) == bytes_of(bench.table.heap().image()), "the log is not all there is");
    Recorded { kind, header, recording, models }
}

/// Steps of the host that there is room for between two of a kernel.
const SPREAD: u64 = 256;

/// What the host has stored between launches: what the launch before has stored is there for certain; of what it stores itself, what it has
/// fenced, and of the rest any.
fn stored_by_host(host: &[(u64, HostStep)], region: warpkeep_device::sim::RegionId) -> Vec<StoreRecord> {
    let mut stored = Vec::new();
    for between in host.chunk_by(|one, next| one.0 == next.0) {
        let mut issued = between[0].0 * SPREAD + 1;
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
            assert!(issued < (when + 1) * SPREAD, "more room is needed");
        }
        assert_eq!(
            between.last().map(|last| last.1),
            Some(HostStep::Fence),
            "what is stored last is not fenced"
        );
    }
    stored
}

/// Writes a small batch straight through.
fn straight_one(bench: &mut Bench, device: &Device, op: Op, numbers: &[u64]) {
    let keys: Vec<u8> = numbers.iter().flat_map(|&number| bench.kind.key_row(number)).collect();
    let first = bench.version + 1;
    let values: Vec<u8> = numbers
        .iter()
        .zip(first..)
        .flat_map(|(&number, version)| bench.kind.value(number, version))
        .collect();
    let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let statuses = device.allocate_zeroed(numbers.len()).unwrap();
    let rows = StraightRows {
        op,
        count: numbers.len() as u64,
        keys: keys.ptr(),
        values: values.ptr(),
        statuses: statuses.ptr(),
    };
    // SAFETY: the columns are as long as the rows say, and nobody else has them.
    let wrote = unsafe {
        let stream = device.stream().unwrap();
        bench.engine.turn().write_straight(&bench.table, &rows, first, &stream).unwrap().expect("a way")
    };
    assert_eq!(wrote.by_cpu, 0, "the host would store, too");
    note_written(bench, op, numbers);
}

/// The same from host memory.
fn straight_from_host(bench: &mut Bench, op: Op, numbers: &[u64]) {
    let (kind, first) = (bench.kind, bench.version + 1);
    let values: Vec<u8> =
        numbers.iter().zip(first..).flat_map(|(&number, version)| kind.value(number, version)).collect();
    let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
    let keys = KeyColumn::of(key, numbers.iter().map(|&number| kind.key(number)));
    let columns = Columns::with_values(op, keys.cells(), Cells::fixed(value.max_len(), &values));
    let view = BatchView::new(key, value, columns).unwrap();
    let (mut results, mut done) = (Results::new(&view), 0);
    let writes = HostWrites { op, batch: view.host().unwrap(), pool: &POOL, at_once: 0 };
    bench.engine.turn().write_from_host(&bench.table, &writes, first, &mut results, &mut done).unwrap();
    assert_eq!(done, numbers.len());
    note_written(bench, op, numbers);
}

/// What a batch has made of the items.
fn note_written(bench: &mut Bench, op: Op, numbers: &[u64]) {
    let first = bench.version + 1;
    for (&number, version) in numbers.iter().zip(first..) {
        let there = bench.model.contains_key(&number);
        match op {
            Op::Delete => drop(bench.model.remove(&number)),
            Op::Insert if there => {}
            Op::Update if !there => {}
            _ => drop(bench.model.insert(number, (version, bench.kind.value(number, version)))),
        }
    }
    bench.version += numbers.len() as u64;
}

/// Does a small batch, and notes when it began to be published and when it had been.
fn publish_one(bench: &mut Bench, device: &Device, dice: &mut Dice, models: &mut Vec<(u64, u64, Model)>) {
    let rows: Vec<_> = bench.rows(dice, KEYS, 7);
    let first_version = bench.version + 1;
    bench.version += rows.len() as u64;
    let batch = batch_of(&rows);
    let mut turn = bench.engine.turn();
    let mut stage = turn.stage(&bench.table, &batch, first_version).unwrap();
    let began = now(device);
    for (index, row) in rows.iter().enumerate() {
        // One that finds no place changes nothing.
        if stage.change(index).is_none() {
            continue;
        }
        match expect(row, bench.model.get(&row.number), first_version + index as u64).2 {
            Some(Some(value)) => {
                bench.model.insert(row.number, (first_version + index as u64, value));
            }
            Some(None) => {
                bench.model.remove(&row.number);
            }
            None => panic!("{row:?} changes nothing, and did"),
        }
    }
    stage.publish().unwrap();
    models.push((began, now(device), bench.model.clone()));
}

/// How many images were opened; or what is wrong with one.
pub(crate) fn explore(recorded: &Recorded, samples: u64) -> Result<u64, String> {
    recorded
        .recording
        .explore(samples, |step, bytes, image| {
            // Going on from there takes longer than the rest.
            check(recorded, step, bytes, image % 8 == 0)
        })
        .map_err(|what| format!("a crash of {:?} after {what}", recorded.kind))
}

/// Opens what a crash left.
fn check(recorded: &Recorded, step: u64, bytes: &[u8], go_on: bool) -> Result<(), String> {
    let kind = recorded.kind;
    let table =
        table_of(bytes, recorded.header, if go_on { 16 } else { 0 }).map_err(|error| error.to_string())?;
    let found: Model =
        (0..KEYS).filter_map(|number| Some((number, get(&table, &kind.key(number))?))).collect();
    let acknowledged = recorded.models.iter().rposition(|&(_, ended, _)| ended <= step).unwrap_or(0);
    let old = &recorded.models[acknowledged].2;
    let new =
        recorded.models.get(acknowledged + 1).filter(|&&(began, ..)| began < step).map(|model| &model.2);
    for number in 0..KEYS {
        let is = found.get(&number);
        if is != old.get(&number) && new.is_none_or(|new| is != new.get(&number)) {
            return Err(format!(
                "key {number} has {is:?}, not {:?}, nor {:?}",
                old.get(&number),
                new.map(|new| new.get(&number))
            ));
        }
    }
    whole(&table, kind, &found)?;
    if go_on {
        // What was recovered can be worked on, and a growth under way comes to its end.
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

/// Whether a table that was opened just now has these items, each once, and nothing else.
pub(crate) fn whole(table: &Table<Coherent>, kind: Kind, items: &Model) -> Result<(), String> {
    if table.len() != items.len() as u64 {
        return Err(format!("{} items counted, {} there", table.len(), items.len()));
    }
    let inspection =
        Table::inspect(table.heap().image(), table.header()).map_err(|error| error.to_string())?;
    if !inspection.is_clean() || (inspection.unfinished, inspection.moving) != (0, 0) {
        return Err(format!("{inspection:?}"));
    }
    let usage = table.heap().usage();
    if usage.used_blocks() != 2 + kind.blocks() * items.len() as u64 {
        return Err(format!("{} items, but in use are {usage}", items.len()));
    }
    let numbers: BTreeMap<_, _> = (0..KEYS).map(|number| (kind.key(number), number)).collect();
    let mut scanned = Model::new();
    table.scan_checked::<String>(1, |item| {
        let change = item.map_err(ToString::to_string)?;
        let number = numbers.get(change.key).ok_or("a key that was never put")?;
        match scanned.insert(*number, (change.version, change.value.to_vec())) {
            None => Ok(()),
            Some(_) => Err(format!("key {number} is there twice")),
        }
    })?;
    if &scanned == items { Ok(()) } else { Err(format!("{items:?} found, but {scanned:?} scanned")) }
}
