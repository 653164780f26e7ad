//! The process dies, or the machine, at every step of batches that a device writes in one pass with `Power`: the
//! remaining state is opened, and a batch is there as a whole or not at all.
//!
//! One test, in a program of its own: what is left out of the protocol, to see that it is missed, is left out of all stores of the process.

#[path = "device/logged_rig.rs"]
mod logged_rig;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex};

use logged_rig::{Place, key_in, log_options, put_rows};
use warpkeep::engine::LogPlace;
use warpkeep::{Device, Durability, KeySpec, Op, Store, TableOptions, ValueSpec};
use warpkeep_crashlab::{LabDisk, Trace};
use warpkeep_device::sim::{CrashImage, RegionId, Seeded, StoreRecord};
use warpkeep_device::{Mode, fault};
use warpkeep_image::{Backing as _, Coherent, HeapOptions, MIN_CHUNK, Persist};
use warpkeep_log::{Disk, DiskFile, site};

const KEYS: u64 = 30;
const CHUNKS: u64 = 40;

/// The mark of each key that is there.
type Model = BTreeMap<u64, u8>;
type Files = BTreeMap<String, Vec<u8>>;

/// The possible states of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Its record is not in the log's file.
    Absent,
    /// It is in the file, and whether it is durable is unknown.
    Either,
    /// It is durable.
    Whole,
}

/// Image and log at a moment when no kernel runs.
struct Moment {
    batch: usize,
    due: Due,
    step: u64,
    image: Vec<u8>,
    log: Files,
}

/// Where all of it happens.
struct Scene {
    device: Device,
    place: Place,
    disk: LabDisk,
    moments: Mutex<Vec<Moment>>,
}

fn files_of(disk: &dyn Disk) -> Files {
    let read = |name: String| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        let mut done = 0;
        while done < bytes.len() {
            done += file.read_at(&mut bytes[done..], done as u64).unwrap();
        }
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

fn disk_of(files: &Files) -> LabDisk {
    let disk = LabDisk::new(&Trace::new());
    for (name, bytes) in files {
        let file = disk.create(name).unwrap();
        file.allocate(bytes.len() as u64).unwrap();
        file.write_at(bytes, 0).unwrap();
    }
    disk
}

impl Scene {
    fn note(&self, batch: Option<usize>, due: Due) {
        let mut moments = self.moments.lock().unwrap();
        let batch =
            batch.or_else(|| Some(moments.last()?.batch + usize::from(moments.last()?.due == Due::Whole)));
        let Some(batch) = batch else { return };
        let step = self.device.last_run().map_or(0, |report| report.now);
        moments.push(Moment { batch, due, step, image: self.place.bytes(), log: files_of(&self.disk) });
    }

    /// The due of the batch that is under way.
    fn again(&self) {
        let last = self.moments.lock().unwrap().last().map(|moment| (moment.batch, moment.due));
        if let Some((batch, due)) = last {
            self.note(Some(batch), due);
        }
    }
}

/// Sees the pending lines change.
#[derive(Clone)]
struct Witness(Arc<Scene>);

impl Persist for Witness {
    fn flush(&self, _site: &'static str, _start: *const u8, _len: usize) {}

    fn fence(&self, site: &'static str) {
        match site {
            "image.pending.name" => self.0.note(None, Due::Absent),
            "image.pending.finish" => self.0.again(),
            _ => {}
        }
    }
}

/// Sees the log's file written and synced.
struct Seen(Arc<Scene>);
struct SeenFile(Box<dyn DiskFile>, Arc<Scene>);

impl Disk for Seen {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SeenFile(self.0.disk.open(name)?, Arc::clone(&self.0))))
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SeenFile(self.0.disk.create(name)?, Arc::clone(&self.0))))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.disk.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.disk.list()
    }
    fn sync_dir(&self, site: &'static str) -> io::Result<()> {
        self.0.disk.sync_dir(site)
    }
}

impl DiskFile for SeenFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
    fn sync(&self, site: &'static str) -> io::Result<()> {
        let last = self.1.moments.lock().unwrap().last().map(|moment| moment.batch);
        let frame = site == site::FRAME;
        if let Some(batch) = last.filter(|_| frame) {
            self.1.note(Some(batch), Due::Either);
        }
        self.0.sync(site)?;
        if let Some(batch) = last.filter(|_| frame) {
            self.1.note(Some(batch), Due::Whole);
        }
        Ok(())
    }
}

/// A run that was recorded.
struct Recorded {
    moments: Vec<Moment>,
    /// The contents of the table after each batch; the first entry is before the first batch.
    models: Vec<Model>,
    stores: Vec<StoreRecord>,
    region: RegionId,
    end: u64,
}

fn record(seed: u64) -> Recorded {
    let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
    let device = Device::simulated(mode).unwrap();
    let (place, disk) = (Place::new(CHUNKS), LabDisk::new(&Trace::new()));
    let scene = Arc::new(Scene { device, place, disk, moments: Mutex::default() });
    let log = LogPlace { disk: Arc::new(Seen(Arc::clone(&scene))), options: log_options() };
    let witnessed = scene.place.with(Witness(Arc::clone(&scene)));
    let store: Store<Witness> = Store::open_in(&witnessed, Some(log), HeapOptions::default()).unwrap();
    store.give_to(&scene.device).unwrap();
    let rows = store.create_table("rows", table(seed)).unwrap();
    // Blocks are taken, and nothing of it is looked at.
    put_rows(&rows, &scene.device, Op::Put, &[0, 1, 2], 1, Durability::Power).unwrap();
    scene.device.simulator().unwrap().take_store_log();
    let mut models = vec![Model::from([(0, 1), (1, 1), (2, 1)])];
    let mut random = fastrand::Rng::with_seed(seed);
    scene.note(Some(0), Due::Whole);
    let ops = [Op::Put, Op::Update, Op::Insert, Op::Delete, Op::Put];
    for (number, (op, mark)) in ops.into_iter().zip(2..).enumerate() {
        let keys: Vec<u64> = (0..9).map(|_| random.u64(..KEYS)).collect();
        put_rows(&rows, &scene.device, op, &keys, mark, Durability::Power).unwrap();
        let mut model = models[number].clone();
        for key in keys {
            let there = model.contains_key(&key);
            match op {
                Op::Delete => drop(model.remove(&key)),
                Op::Insert if there => {}
                Op::Update if !there => {}
                _ => drop(model.insert(key, mark)),
            }
        }
        models.push(model);
        scene.note(Some(number + 1), Due::Whole);
    }
    let stores = scene.device.simulator().unwrap().take_store_log();
    let region = stores.first().expect("kernels have stored").region;
    drop(rows);
    drop(store);
    let moments = std::mem::take(&mut *scene.moments.lock().unwrap());
    let end = moments.last().expect("there are some").step;
    Recorded { moments, models, stores, region, end }
}

/// With keys of eight bytes, or of any length in cells.
fn table(seed: u64) -> TableOptions {
    let key = if seed.is_multiple_of(2) { KeySpec::U64 } else { KeySpec::variable(12).unwrap() };
    TableOptions::new(key, ValueSpec::fixed(16).unwrap()).capacity(100)
}

/// How many images were opened; or what is wrong with one.
fn explore(recorded: &Recorded, samples: u64) -> Result<u64, String> {
    let mut images = 0;
    for (number, moment) in recorded.moments.iter().enumerate() {
        let (old, new) = match recorded.models.get(moment.batch) {
            Some(new) => (&recorded.models[moment.batch.saturating_sub(1)], new),
            None => continue,
        };
        let next = recorded.moments.get(number + 1).map_or(recorded.end, |next| next.step);
        let since: Vec<StoreRecord> = recorded
            .stores
            .iter()
            .filter(|store| store.issued > moment.step && store.issued <= next)
            .cloned()
            .collect();
        let mut steps: BTreeSet<u64> =
            since.iter().flat_map(|store| [Some(store.issued), store.fenced]).flatten().collect();
        steps.insert(moment.step);
        for step in steps.into_iter().filter(|&step| step <= next) {
            let crash = CrashImage::new(&moment.image, recorded.region, &since, step);
            let possible = crash.all(samples.ilog2()).unwrap_or_else(|| {
                (0..samples - 1).map(|sample| crash.sample(sample)).chain([crash.arrived(step)]).collect()
            });
            let what = |found: String| {
                format!(
                    "after step {step} of {}, batch {} {:?}: {found}",
                    recorded.end, moment.batch, moment.due
                )
            };
            for bytes in possible {
                check(&holding(&bytes), moment, old, new)
                    .map_err(|found| what(format!("the process died, {found}")))?;
                images += 1;
            }
        }
        if moment.due != Due::Either {
            let died = |found| format!("batch {} {:?}: the machine died, {found}", moment.batch, moment.due);
            check(&Place::new(CHUNKS), moment, old, new).map_err(died)?;
            images += 1;
        }
    }
    Ok(images)
}

/// These bytes, as an image.
fn holding(bytes: &[u8]) -> Place {
    let place = Place::new(bytes.len() as u64 / MIN_CHUNK);
    // SAFETY: the memory is new, has this length, and no other code knows it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.memory.base(), bytes.len()) };
    place
}

/// Opens what is left, and compares.
fn check(place: &Place, moment: &Moment, old: &Model, new: &Model) -> Result<(), String> {
    let log = LogPlace { disk: Arc::new(disk_of(&moment.log)), options: log_options() };
    let store: Store<Coherent> = Store::open_in(&place.plain(), Some(log), HeapOptions::default())
        .map_err(|error| error.to_string())?;
    let rows = store.table("rows").map_err(|error| error.to_string())?;
    let mut found = Model::new();
    for key in 0..KEYS {
        if let Some(value) = rows.get(&key_in(rows.key_spec(), key)[..]).map_err(|error| error.to_string())? {
            if value.iter().any(|&byte| byte != value[0]) {
                return Err(format!("key {key} has {value:?}"));
            }
            found.insert(key, value[0]);
        }
    }
    let right = match moment.due {
        Due::Absent => &found == old,
        Due::Either => &found == old || &found == new,
        Due::Whole => &found == new,
    };
    if !right {
        return Err(format!("and there is {found:?}, not {old:?} or then {new:?}"));
    }
    match rows.len() == found.len() as u64 {
        true => Ok(()),
        false => Err(format!("{} items are counted, {} are there", rows.len(), found.len())),
    }
}

/// Crashes runs with this many seeds until a check fails.
fn crashes(seeds: u64, samples: u64) -> Result<u64, String> {
    (0..seeds).try_fold(0, |images, seed| {
        let explored = explore(&record(seed), samples).map_err(|what| format!("seed {seed}: {what}"))?;
        Ok(images + explored)
    })
}

fn tell(line: &str) {
    writeln!(io::stdout().lock(), "{line}").expect("standard output");
}

#[test]
fn a_logged_batch_is_there_as_a_whole_or_not_at_all() {
    let images = crashes(3, 8).unwrap_or_else(|what| panic!("{what}"));
    tell(&format!("crashed logged batches of a device: {images} images"));
    let mut caught = 0;
    let mutants = ["log.durable_before_publish", "log.named_until_published"];
    for name in mutants {
        let fault = fault::activate(name);
        let wrong = crashes(2, 4).err();
        assert!(fault.reached() > 0, "nothing comes to {name}");
        drop(fault);
        tell(&format!("without {name}: {}", wrong.as_deref().unwrap_or("NOT NOTICED")));
        caught += usize::from(wrong.is_some());
    }
    tell(&format!("mutation gate of logged batches: {caught} of {} caught", mutants.len()));
    assert_eq!(caught, mutants.len());
}
