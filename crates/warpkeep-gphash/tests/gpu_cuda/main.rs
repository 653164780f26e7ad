//! Tables worked by the first GPU, in files in memory: the same cases as on the simulator.

#[macro_use]
#[path = "../gpu/cases.rs"]
mod cases;
#[path = "../gpu/adversary.rs"]
mod adversary;
#[path = "../gpu/agree.rs"]
mod agree;
#[path = "../gpu/bench.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulator")]
mod bench;
#[macro_use]
#[path = "../gpu/cells.rs"]
mod cells;
#[macro_use]
#[path = "../gpu/hosts.rs"]
mod hosts;
#[macro_use]
#[path = "../gpu/keys.rs"]
mod keys;
#[macro_use]
#[path = "../gpu/mirror.rs"]
mod mirror;
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
#[path = "../gpu/sharing.rs"]
mod sharing;
#[macro_use]
#[path = "../gpu/straight.rs"]
mod straight;
#[macro_use]
#[path = "../gpu/values.rs"]
mod values;
#[path = "../gpu/variable.rs"]
mod variable;

use std::sync::{Arc, Once};

use warpkeep_device::{Device, DeviceChoice, DeviceError};
use warpkeep_gphash::TableError;
use warpkeep_image::{Coherent, CreateOptions, Heap, HeapOptions, Image, MIN_CHUNK, MapOptions};

use bench::{Bench, Dice, tell};
use rig::Kind;

/// The first GPU; `None`, said where CI sees it, if there is none.
fn gpu() -> Option<Device> {
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(device) => Some(device),
        Err(error @ DeviceError::NoCuda { .. }) => {
            static SAID: Once = Once::new();
            SAID.call_once(|| tell(&format!("SKIPPED: no CUDA device ({error})")));
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// An image in a file that is memory, and gone with the last who has it mapped.
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

fn on_the_gpu(case: fn(&Device, bench::Space)) {
    if let Some(device) = gpu() {
        case(&device, in_a_file);
    }
}

all_cases!(crate::on_the_gpu);
paper_cases!(crate::on_the_gpu);
mirror_cases!(crate::on_the_gpu);
keys_cases!(crate::on_the_gpu);
straight_cases!(crate::on_the_gpu);
values_cases!(crate::on_the_gpu);
hosts_cases!(crate::on_the_gpu);
sharing_cases!(crate::on_the_gpu);
cells_cases!(crate::on_the_gpu);

/// Many more items than the simulator has time for, in memory of the process, too.
#[test]
fn large_batches_do_what_a_map_does() {
    let Some(device) = gpu() else { return };
    for (space, kind) in [(in_a_file as bench::Space, Kind::Packed), (rig::heap, Kind::Inline)] {
        let mut bench = Bench::new(&device, space, kind, warpkeep_gphash::Geometry::default(), 60_000);
        let mut dice = Dice(3);
        for _ in 0..6 {
            bench.batch(&mut dice, 60_000, 20_000);
            bench.settle(1 << 20);
        }
        bench.check(60_000);
        bench.inspect();
        bench.reopened();
    }
}

/// Readers beside a writer: whoever is there all the time is always found, and a value is always one that was written.
#[test]
fn kernels_that_read_run_beside_those_that_write() {
    let Some(device) = gpu() else { return };
    for kind in Kind::ALL {
        let mut bench = Bench::new(&device, in_a_file, kind, warpkeep_gphash::Geometry::default(), 4000);
        let full = bench.run(&bench.puts(0..1000, 0));
        assert!(full.is_empty());
        let keys: Vec<_> = (0..2000).map(|number| kind.key(number)).collect();
        let values: Vec<Vec<_>> =
            (0..2000).map(|number| (0..40).map(|mark| kind.value(number, mark)).collect()).collect();
        let (engine, table) = (&bench.engine, &bench.table);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..60 {
                            let asked = keys.iter().map(Vec::as_slice);
                            engine
                                .get_many(table, asked, |index, found| match found {
                                    None => assert!(index >= 1000, "key {index} is always there"),
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
            // Some keys are replaced, others come and go, in slots and records that are used again.
            let mut version = 5000;
            while readers.iter().any(|reader| !reader.is_finished()) {
                for mark in 1..40 {
                    let mut rows = bench.puts((mark..2000).step_by(3), mark);
                    for row in rows.iter_mut().filter(|row| row.number >= 1000 && mark % 2 == 0) {
                        row.op = warpkeep_core::Op::Delete;
                    }
                    let mut turn = engine.turn();
                    turn.stage(table, &bench::batch_of(&rows), version).unwrap().publish().unwrap();
                    version += 2000;
                }
            }
        });
    }
}
