//! Tables on the first GPU, in files in memory: the same cases as on the simulator.

#[macro_use]
#[path = "../gpu/cases.rs"]
mod cases;
#[path = "../gpu/adversary.rs"]
mod adversary;
#[path = "../gpu/agree.rs"]
mod agree;
#[path = "../gpu/harness.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulator")]
mod harness;
#[macro_use]
#[path = "../gpu/cells.rs"]
mod cells;
#[macro_use]
#[path = "../gpu/host_gets.rs"]
mod host_gets;
#[macro_use]
#[path = "../gpu/keys.rs"]
mod keys;
#[macro_use]
#[path = "../gpu/device_index.rs"]
mod device_index;
#[path = "../gpu/oracle.rs"]
mod oracle;
#[macro_use]
#[path = "../gpu/paper.rs"]
mod paper;
#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the CPU")]
mod rig;
#[path = "../gpu/snapshot.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulator")]
mod snapshot;
#[macro_use]
#[path = "../gpu/host_split.rs"]
mod host_split;
#[macro_use]
#[path = "../gpu/fused.rs"]
mod fused;
#[macro_use]
#[path = "../gpu/value_cache.rs"]
mod value_cache;
#[path = "../gpu/variable.rs"]
mod variable;

use std::sync::Arc;

use warpkeep_device::Device;
use warpkeep_gphash::TableError;
use warpkeep_image::{Coherent, CreateOptions, Heap, HeapOptions, Image, MIN_CHUNK, MapOptions};
use warpkeep_suites::device::on_gpu;

use harness::{Dice, Harness};
use rig::Kind;

/// A heap in a file in memory, which is deleted and disappears with its last mapping.
fn in_a_file(max_chunks: u64) -> Arc<Heap<Coherent>> {
    let folder = tempfile::tempdir_in("/dev/shm").expect("files in memory");
    let options = CreateOptions {
        len: 4 * MIN_CHUNK,
        chunk_size: MIN_CHUNK,
        map: MapOptions { max_len: Some(max_chunks * MIN_CHUNK), ..MapOptions::default() },
        ..CreateOptions::default()
    };
    let image = Image::create(&folder.path().join("image"), Coherent, &options).unwrap();
    image.begin(1).unwrap();
    Arc::new(Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap())
}

fn on_the_gpu(case: fn(&Device, harness::Space)) {
    on_gpu(|device| case(device, in_a_file));
}

all_cases!(crate::on_the_gpu);
paper_cases!(crate::on_the_gpu);
device_index_cases!(crate::on_the_gpu);
keys_cases!(crate::on_the_gpu);
fused_cases!(crate::on_the_gpu);
value_cache_cases!(crate::on_the_gpu);
host_gets_cases!(crate::on_the_gpu);
host_split_cases!(crate::on_the_gpu);
cells_cases!(crate::on_the_gpu);

/// More items than the simulator has time for, in memory of the process, too.
#[test]
fn large_batches_agree_with_a_map() {
    on_gpu(large_batches);
}

fn large_batches(device: &Device) {
    for (space, kind) in [(in_a_file as harness::Space, Kind::Packed), (rig::heap, Kind::Inline)] {
        let mut harness = Harness::new(device, space, kind, warpkeep_gphash::Geometry::default(), 60_000);
        let mut dice = Dice::new(3);
        for _ in 0..6 {
            harness.batch(&mut dice, 60_000, 20_000);
            harness.finish_growth(1 << 20);
        }
        harness.check(60_000);
        harness.inspect();
        harness.reopened();
    }
}

/// Readers beside a writer find every key that is present all the time, and only values that were written.
#[test]
fn gets_beside_writes_return_written_values() {
    on_gpu(gets_beside_writes);
}

fn gets_beside_writes(device: &Device) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, in_a_file, kind, warpkeep_gphash::Geometry::default(), 4000);
        let full = harness.run(&harness.puts(0..1000, 0));
        assert!(full.is_empty());
        let keys: Vec<_> = (0..2000).map(|number| kind.key(number)).collect();
        let values: Vec<Vec<_>> =
            (0..2000).map(|number| (0..40).map(|mark| kind.value(number, mark)).collect()).collect();
        let (engine, table) = (&harness.engine, &harness.table);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..60 {
                            let keys = keys.iter().map(Vec::as_slice);
                            engine
                                .get_many(table, keys, |index, found| match found {
                                    None => assert!(index >= 1000, "key {index} is always present"),
                                    Some((_, value)) => {
                                        let known = values[index].iter().any(|one| one == value);
                                        assert!(known, "key {index} has {value:?}");
                                    }
                                })
                                .unwrap();
                        }
                    })
                })
                .collect();
            // Some keys are replaced, others inserted and deleted, in reused slots and blocks.
            let mut version = 5000;
            while readers.iter().any(|reader| !reader.is_finished()) {
                for mark in 1..40 {
                    let mut rows = harness.puts((mark..2000).step_by(3), mark);
                    for row in rows.iter_mut().filter(|row| row.number >= 1000 && mark % 2 == 0) {
                        row.op = warpkeep_core::Op::Delete;
                    }
                    let mut lock = engine.write_lock();
                    lock.stage(table, &harness::batch_of(&rows), version).unwrap().publish().unwrap();
                    version += 2000;
                }
            }
        });
    }
}
