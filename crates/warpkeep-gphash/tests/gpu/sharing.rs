//! Batches whose values a device and the host bring together, to memory that the device reaches: answers are those of a map, and nothing else is written.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_core::{
    AnswerRows, Answers, BatchView, Cells, ColumnMut, Columns, HostCells, Op, Output, OutputValues, Status,
    ValueSpec,
};
use warpkeep_device::{Device, PinnedBuffer};
use warpkeep_gphash::gpu::{Gathered, HostGets, ValueRoom};
use warpkeep_gphash::{Geometry, Progress};

use crate::bench::{Bench, Dice, KeyColumn, POOL, Space};
use crate::mirror::mirrored;
use crate::rig::Kind;

/// A test for each case, with a function that brings the device.
macro_rules! sharing_cases {
    ($on:path) => {
        all_cases! {
            $on;
            sharing: shared_gets_are_answered_as_by_a_map, shared_gets_of_many_keys_are_answered_as_by_a_map,
                shared_gets_of_hot_values_are_answered_alike, shared_gets_beside_writes_find_what_is_there,
                only_memory_that_is_reached_is_shared
        }
    };
}

const KINDS: [Kind; 7] =
    [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Wide, Kind::Cells, Kind::TiledCells];

/// What rows hold that nobody has answered, and memory around them.
const OWN: u8 = 0xaa;

/// Where the answers of a batch go.
struct Rows {
    statuses: Vec<Status>,
    versions: Vec<u64>,
    values: PinnedBuffer,
    /// Where values begin, and bytes of each.
    begin: usize,
    row: usize,
}

impl Rows {
    /// Room for so many of a table, from a byte on, and as much behind it.
    fn new(device: &Device, bench: &Bench, count: usize, begin: usize) -> Rows {
        let row = bench.table.value_spec().max_len();
        let mut values = device.pin(2 * begin + count * row).unwrap();
        values.as_mut_slice().fill(OWN);
        Rows { statuses: vec![Status::Pending; count], versions: vec![0; count], values, begin, row }
    }

    fn with<R>(&mut self, view: &BatchView<'_>, versions: bool, work: impl FnOnce(AnswerRows<'_>) -> R) -> R {
        let Rows { statuses, versions: all, values, begin, row } = self;
        let bytes = &mut values.as_mut_slice()[*begin..][..statuses.len() * *row];
        let values = OutputValues::Rows { len: *row, bytes: ColumnMut::Host(bytes) };
        let versions = versions.then_some(ColumnMut::Host(all));
        let output = Output::new(view, ColumnMut::Host(statuses), versions, values).unwrap();
        work(output.into_host().unwrap().rows_mut().unwrap())
    }

    fn value(&self, index: usize) -> &[u8] {
        &self.values.as_slice()[self.begin + index * self.row..][..self.row]
    }
}

/// Looks numbers up, of which the device takes a share, and checks what came; from keys that it reaches or not.
fn check(bench: &Bench, device: &Device, numbers: &[u64], share: f64, (versions, reached): (bool, bool)) {
    let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
    let column = KeyColumn::of(key, numbers.iter().map(|&number| bench.kind.key(number)));
    let mut pinned;
    let cells = match (column.cells().host(), key.fixed_len()) {
        (Some(HostCells::Fixed { bytes, .. }), Some(len)) if reached => {
            // Where kernels can read them, or where no word begins.
            let begin = if versions { 8 } else { 4 };
            pinned = device.pin(begin + bytes.len()).unwrap();
            pinned.as_mut_slice()[begin..].copy_from_slice(bytes);
            Cells::fixed(len, &pinned.as_slice()[begin..])
        }
        _ => column.cells(),
    };
    let view = BatchView::new(key, value, Columns::keys_only(Op::Get, cells)).unwrap();
    // Rows of values are aligned to 16 bytes, or to 8 only.
    let mut rows = Rows::new(device, bench, numbers.len(), if versions { 16 } else { 8 });
    bench.engine.adjust(|profile| profile.device_share = share);
    let came = rows.with(&view, versions, |mut answers| {
        assert!(bench.engine.shares(&bench.table, &mut answers));
        let keys = view.host().unwrap().keys();
        let gets = HostGets { keys, answers, pool: &POOL, at_once: if reached { 0 } else { 50 } };
        bench.engine.share_rows(&bench.table, gets).unwrap().expect("there is a mirror")
    });
    let mut expected = Gathered::default();
    for (index, number) in numbers.iter().enumerate() {
        let what = format!("{:?}, {number} at {index} of {}, share {share}", bench.kind, numbers.len());
        match bench.model.get(number) {
            Some((version, value)) => {
                assert_eq!((rows.statuses[index], rows.value(index)), (Status::Ok, &value[..]), "{what}");
                assert_eq!(rows.versions[index], if versions { *version } else { 0 }, "{what}");
                expected.found += 1;
            }
            None => {
                assert_eq!((rows.statuses[index], rows.versions[index]), (Status::NotFound, 0), "{what}");
                assert!(rows.value(index).iter().all(|&byte| byte == OWN), "{what}");
                expected.absent += 1;
            }
        }
    }
    assert_eq!(came, expected);
    let end = rows.begin + numbers.len() * rows.row;
    let (before, behind) = (&rows.values.as_slice()[..rows.begin], &rows.values.as_slice()[end..]);
    assert!(before.iter().chain(behind).all(|&byte| byte == OWN), "{:?} wrote beside its rows", bench.kind);
}

/// A batch that ends anywhere in a warp, cut anywhere between the two; with keys that come twice and keys that are not there.
pub(crate) fn shared_gets_are_answered_as_by_a_map(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    for kind in KINDS {
        let bench = mirrored(device, space, kind, KEYS);
        let mut dice = Dice(9);
        for count in [1, 31, 33, 150, 301] {
            let numbers: Vec<u64> = (0..count).map(|_| 1 + dice.below(2 * KEYS)).collect();
            for (round, share) in [0.0, 0.01, 0.4, 0.9, 1.0].into_iter().enumerate() {
                // In order, and as they come.
                bench
                    .engine
                    .adjust(|profile| profile.ordered_from = if round % 2 == 0 { 0 } else { usize::MAX });
                let wants = [(false, false), (false, true), (true, false), (true, true)];
                check(&bench, device, &numbers, share, wants[(round + count as usize) % 4]);
            }
        }
    }
}

/// More keys than one thread notes at a time.
pub(crate) fn shared_gets_of_many_keys_are_answered_as_by_a_map(device: &Device, space: Space) {
    let bench = mirrored(device, space, Kind::Packed, 3000);
    let numbers: Vec<u64> = (0..10_000).map(|number| number * 7919 % 3100).collect();
    check(&bench, device, &numbers, 0.9, (true, true));
}

/// Values that are in device memory go from there to the host.
pub(crate) fn shared_gets_of_hot_values_are_answered_alike(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Tiled, Kind::LongTiled] {
        let bench = mirrored(device, space, kind, 100);
        while bench.engine.turn().maintain(&bench.table, 64).unwrap() == Progress::Working {}
        assert!(bench.engine.load_values(&bench.table, ValueRoom::Share(0.5)).unwrap().cached > 0);
        let numbers: Vec<u64> = (0..300).map(|number| number * 7 % 130).collect();
        for order_from in [0, usize::MAX] {
            bench.engine.adjust(|profile| profile.ordered_from = order_from);
            for share in [0.3, 1.0] {
                check(&bench, device, &numbers, share, (true, true));
            }
        }
    }
}

/// While others write, and the share moves with what is measured.
pub(crate) fn shared_gets_beside_writes_find_what_is_there(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in [Kind::Packed, Kind::LongTiled, Kind::TiledCells] {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1200);
        assert!(bench.run(&bench.puts(0..KEYS, 0)).is_empty());
        bench.engine.load_mirror(&bench.table).unwrap();
        let (bench, done) = (&bench, AtomicBool::new(false));
        let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
        let column = KeyColumn::of(key, (0..KEYS).map(|number| kind.key(number)));
        let view = BatchView::new(key, value, Columns::keys_only(Op::Get, column.cells())).unwrap();
        let read = || {
            let (mut before, mut rows) =
                (vec![0; KEYS as usize], Rows::new(device, bench, KEYS as usize, 16));
            while !done.load(Ordering::Relaxed) {
                let came = rows.with(&view, true, |answers| {
                    let keys = view.host().unwrap().keys();
                    let gets = HostGets { keys, answers, pool: &POOL, at_once: 90 };
                    bench.engine.share_rows(&bench.table, gets).unwrap().expect("there is a mirror")
                });
                assert_eq!(came, Gathered { found: KEYS, absent: 0 });
                for (index, seen) in before.iter_mut().enumerate() {
                    let (version, value) = (rows.versions[index], rows.value(index));
                    assert!(version >= *seen, "key {index} went back in time");
                    let known = |mark| kind.value(index as u64, mark) == value;
                    assert!((0..40).any(known), "key {index} has {value:?}");
                    *seen = version;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            bench.write_marks(KEYS, 1..30);
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Others are told so, with nothing answered; and so are tables without a mirror, and keys that do not fit.
pub(crate) fn only_memory_that_is_reached_is_shared(device: &Device, space: Space) {
    let bench = mirrored(device, space, Kind::Packed, 10);
    let (key, value) = (bench.table.key_spec(), bench.table.value_spec());
    let keys: Vec<u8> = (0..10).flat_map(|number| Kind::Packed.key(number)).collect();
    let view = BatchView::new(key, value, Columns::keys_only(Op::Get, Cells::fixed(8, &keys))).unwrap();
    let host_keys = view.host().unwrap().keys();
    let refused = |values: OutputValues<'_>| {
        let mut statuses = [Status::Pending; 10];
        let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
        let mut output = output.into_host().unwrap();
        let mut answers = output.rows_mut().unwrap();
        assert!(!bench.engine.shares(&bench.table, &mut answers));
        let gets = HostGets { keys: host_keys, answers, pool: &POOL, at_once: 0 };
        assert_eq!(bench.engine.share_rows(&bench.table, gets).unwrap(), None);
        assert_eq!(statuses, [Status::Pending; 10]);
    };
    let (mut pinned, mut other) = (device.pin(200).unwrap(), [0; 160]);
    refused(OutputValues::None);
    // The second is reached, but not in whole words.
    for bytes in [&mut other[..], &mut pinned.as_mut_slice()[12..172]] {
        refused(OutputValues::Rows { len: 16, bytes: ColumnMut::Host(bytes) });
    }
    // Rows of another table's values, shorter and longer: beside them is somebody else's memory.
    for len in [8, 24] {
        let value = ValueSpec::fixed(len).unwrap();
        let view = BatchView::new(key, value, Columns::keys_only(Op::Get, Cells::fixed(8, &keys))).unwrap();
        let (len, mut statuses) = (len as usize, [Status::Pending; 10]);
        let mut pinned = device.pin(300).unwrap();
        pinned.as_mut_slice().fill(OWN);
        let bytes = ColumnMut::Host(&mut pinned.as_mut_slice()[8..][..10 * len]);
        let values = OutputValues::Rows { len, bytes };
        let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
        let mut output = output.into_host().unwrap();
        let gets = HostGets { keys: host_keys, answers: output.rows_mut().unwrap(), pool: &POOL, at_once: 0 };
        assert_eq!(bench.engine.share_rows(&bench.table, gets).unwrap(), None);
        assert!(pinned.as_slice().iter().all(|&byte| byte == OWN) && statuses == [Status::Pending; 10]);
    }
    let mut rows = Rows::new(device, &bench, 10, 8);
    for cells in [Cells::fixed(8, &keys[..72]), Cells::fixed(16, &keys), Cells::Empty] {
        rows.with(&view, true, |answers| {
            let gets = HostGets { keys: cells.host().unwrap(), answers, pool: &POOL, at_once: 0 };
            assert!(bench.engine.share_rows(&bench.table, gets).is_err());
        });
    }
    bench.engine.drop_mirror(&bench.table);
    rows.with(&view, true, |answers| {
        let gets = HostGets { keys: host_keys, answers, pool: &POOL, at_once: 0 };
        assert_eq!(bench.engine.share_rows(&bench.table, gets).unwrap(), None);
    });
    assert!(rows.statuses.iter().all(|&status| status == Status::Pending));
}
