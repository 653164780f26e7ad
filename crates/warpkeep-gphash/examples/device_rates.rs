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
    let report = engine.load_mirror(&table)?;
    println!(
        "mirror_made,{},{items},{:.2},",
        report.items,
        report.items as f64 / report.took.as_secs_f64() / 1e6
    );
    for shift in [12, 14, 16, 18, 20, 22, 24] {
        let batch = (1_usize << shift).min(items as usize);
        for (ways, from) in [("", usize::MAX), ("_ordered", 0)] {
            engine.order_from(from);
            gets(&table, &engine, items, batch, &format!("get_mirrored{ways}"))?;
            gets(&table, &engine, items, batch, &format!("zipf_mirrored{ways}"))?;
        }
        gets(&table, &engine, items, batch, "get_absent_mirrored")?;
        gets(&table, &engine, items, batch, "locate_mirrored")?;
        gets(&table, &engine, items, batch, "locate_absent_mirrored")?;
    }
    engine.order_from(1 << 16);
    puts(&table, &engine, items)?;
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
            let mut stage = turn.stage(table, &puts, first_version + first)?;
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
    const IN_FLIGHT: usize = 4;
    let values_wanted = !name.contains("locate");
    let zipf = name.contains("zipf");
    let columns: Vec<_> = (0..IN_FLIGHT)
        .map(|_| Ok((device.allocate(batch)?, device.allocate(batch * VALUE)?)))
        .collect::<Result<Vec<_>, warpkeep_device::DeviceError>>()?;
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 + 1 {
        let beyond = if hit { 0 } else { items };
        let number = |index: u64| {
            let random = mix64(Seed(round), index);
            // A power law whose exponent is nearly 1: the logarithm of the rank is even.
            let rank = if zipf {
                ((items as f64).powf(random as f64 / u64::MAX as f64) - 1.0) as u64
            } else {
                random
            };
            beyond + mix64(Seed(77), rank) % items
        };
        let keys: Vec<u64> = (0..batch as u64).map(|index| key(number(index))).collect();
        let keys = device.upload(&keys)?;
        let rows = |(statuses, values): &(warpkeep_device::Buffer, warpkeep_device::Buffer)| GetRows {
            count: batch as u64,
            keys: keys.ptr(),
            statuses: statuses.ptr(),
            versions: DevicePtr::NULL,
            values: if values_wanted { values.ptr() } else { DevicePtr::NULL },
        };
        let begun = Instant::now();
        // SAFETY: the buffers are as long as the rows say, and live on.
        unsafe { engine.get_rows(table, &rows(&columns[0]), &stream)? }.finish()?;
        let once = begun.elapsed();
        let begun = Instant::now();
        // SAFETY: the same.
        let readings = columns.iter().map(|one| unsafe { engine.get_rows(table, &rows(one), &stream) });
        let readings = readings.collect::<Result<Vec<_>, _>>()?;
        readings.into_iter().try_for_each(warpkeep_gphash::gpu::Reading::finish)?;
        // The first one warms up.
        if round > 0 {
            alone.push(once);
            together.push(begun.elapsed());
        }
        let wanted = if hit { Status::Ok } else { Status::NotFound };
        for (statuses, values) in &columns {
            assert!(statuses.to_vec::<u8>()?[..batch].iter().all(|&status| status == wanted as u8));
            if hit && values_wanted {
                let found = values.to_vec::<[u8; VALUE]>()?;
                for (index, value) in (0..).zip(found).step_by(7) {
                    assert_eq!(value, [number(index) as u8; VALUE], "key {index}");
                }
            }
        }
    }
    println!("{name},{batch},{items},{:.2},{:.2}", rate(batch, alone), rate(IN_FLIGHT * batch, together));
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
