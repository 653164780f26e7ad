//! First rates of a table worked by a device, as CSV: `device_rates DEVICE [ITEMS] [DIRECTORY]`. The image lies in the directory, which
//! a GPU wants on tmpfs. Keys have 8 bytes, values 128.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpkeep_core::{KeySpec, MergeRule, Op, Seed, Status, ValueSpec, mix64};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{CachePolicy, DeviceBatch, DeviceEngine, DeviceImage, GetRows};
use warpkeep_gphash::{Geometry, Layout, Table, TableError, TableSpec};
use warpkeep_image::{Coherent, CreateOptions, Heap, HeapOptions, Image};

const VALUE: usize = 128;
const ROUNDS: usize = 5;

fn key(number: u64) -> u64 {
    mix64(Seed(3), number)
}

/// Median rate, in millions a second.
fn rate(operations: usize, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    operations as f64 / times[times.len() / 2].as_secs_f64() / 1e6
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = Device::open(arguments.next().as_deref().unwrap_or("sim").parse()?)?;
    let items: u64 = arguments.next().map_or(Ok(1 << 16), |text| text.parse())?;
    let directory = arguments.next().unwrap_or_else(|| "/dev/shm".into());
    let file = tempfile::Builder::new().prefix("warpkeep-rates-").tempdir_in(Path::new(&directory))?;
    let image = Image::create(&file.path().join("image"), Coherent, &CreateOptions::default())?;
    image.begin(1)?;
    let image = Arc::new(image);
    let heap = Arc::new(Heap::recover::<TableError>(&image, HeapOptions::default(), |_| Ok(()))?);
    let spec = TableSpec {
        key: KeySpec::U64,
        value: ValueSpec::fixed(VALUE as u32)?,
        geometry: Geometry::default(),
        capacity: items,
        layout: Layout::Packed,
        merge: MergeRule::None,
        seed: Seed(1),
    };
    let table = Table::create(&heap, &spec)?;
    let on_device = Arc::new(DeviceImage::new(&device, &image)?);
    let engine = DeviceEngine::new(&on_device, &table)?;
    println!("operation,batch,items,million_per_second,million_per_second_kernel");
    puts(&table, &engine, items)?;
    for shift in [12, 16, 20, 22] {
        let batch = (1_usize << shift).min(items as usize);
        gets(&table, &engine, items, batch, "get")?;
        gets(&table, &engine, items, batch, "get_absent")?;
    }
    engine.load_cache(&table, 1.0, CachePolicy::Random)?;
    for shift in [12, 16, 20, 22] {
        let batch = (1_usize << shift).min(items as usize);
        gets(&table, &engine, items, batch, "get_cached")?;
        gets(&table, &engine, items, batch, "get_absent_cached")?;
    }
    engine.load_cache(&table, 0.0, CachePolicy::Random)?;
    from_host(&table, &engine, items)?;
    Ok(())
}

/// Loads the table in batches, then replaces what a batch has.
fn puts(table: &Table<Coherent>, engine: &DeviceEngine<Coherent>, items: u64) -> Result<(), Box<dyn Error>> {
    let batch = (1 << 20).min(items);
    for (name, first_version, up_to) in [("insert", 1, items), ("update", 1 << 40, (8 * batch).min(items))] {
        let (mut whole, mut kernel) = (Vec::new(), Vec::new());
        for first in (0..up_to).step_by(batch as usize) {
            let numbers = first..(first + batch).min(up_to);
            let keys: Vec<[u8; 8]> = numbers.clone().map(|number| key(number).to_le_bytes()).collect();
            let values: Vec<[u8; VALUE]> = numbers.clone().map(|number| [number as u8; VALUE]).collect();
            let mut puts = DeviceBatch::default();
            for (key, value) in keys.iter().zip(&values) {
                puts.push(Op::Put, key, value, 0);
            }
            let begun = Instant::now();
            let mut turn = engine.turn();
            let stage = turn.stage(table, &puts, first_version + first)?;
            let full = stage.statuses().iter().filter(|status| **status == Status::TableFull).count();
            assert_eq!(full, 0, "the table was made for this many");
            let staged = stage.kernel_time();
            let publishing = Instant::now();
            stage.publish()?;
            kernel.push(staged + publishing.elapsed());
            whole.push(begun.elapsed());
        }
        println!(
            "{name},{batch},{items},{:.2},{:.2}",
            rate(batch as usize, whole),
            rate(batch as usize, kernel)
        );
    }
    Ok(())
}

/// Gets with keys and answers in device memory.
fn gets(
    table: &Table<Coherent>,
    engine: &DeviceEngine<Coherent>,
    items: u64,
    batch: usize,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let (device, stream) = (engine.device(), engine.device().stream()?);
    let hit = !name.contains("absent");
    let statuses = device.allocate(batch)?;
    let values = device.allocate(batch * VALUE)?;
    let mut times = Vec::new();
    for round in 0..ROUNDS as u64 + 1 {
        let beyond = if hit { 0 } else { items };
        let number = |index: u64| beyond + mix64(Seed(round), index) % items;
        let keys: Vec<u64> = (0..batch as u64).map(|index| key(number(index))).collect();
        let keys = device.upload(&keys)?;
        let rows = GetRows {
            count: batch as u64,
            keys: keys.ptr(),
            statuses: statuses.ptr(),
            versions: DevicePtr::NULL,
            values: values.ptr(),
        };
        let begun = Instant::now();
        // SAFETY: the buffers are as long as the rows say, and live on.
        let reading = unsafe { engine.get_rows(table, &rows, &stream)? };
        reading.finish()?;
        // The first one warms up.
        if round > 0 {
            times.push(begun.elapsed());
        }
        let wanted = if hit { Status::Ok } else { Status::NotFound };
        assert!(statuses.to_vec::<u8>()?[..batch].iter().all(|&status| status == wanted as u8));
        if hit {
            let mut value = [0_u8; VALUE];
            values.read(0, &mut value)?;
            assert_eq!(value, [number(0) as u8; VALUE]);
        }
    }
    let rate = rate(batch, times);
    println!("{name},{batch},{items},{rate:.2},{rate:.2}");
    Ok(())
}

/// Gets from host memory to host memory.
fn from_host(
    table: &Table<Coherent>,
    engine: &DeviceEngine<Coherent>,
    items: u64,
) -> Result<(), Box<dyn Error>> {
    let batch = (1 << 20).min(items as usize);
    let mut times = Vec::new();
    for round in 0..ROUNDS as u64 {
        let keys: Vec<[u8; 8]> =
            (0..batch as u64).map(|index| key(mix64(Seed(round), index) % items).to_le_bytes()).collect();
        let mut found = 0;
        let begun = Instant::now();
        engine.get_many(table, keys.iter().map(|key| &key[..]), |_, value| {
            found += usize::from(value.is_some());
        })?;
        times.push(begun.elapsed());
        assert_eq!(found, batch);
    }
    let rate = rate(batch, times);
    println!("get_host_to_host,{batch},{items},{rate:.2},");
    Ok(())
}
