//! Gets whose values the device and the host copy together, to host memory that the device reaches: they agree with a
//! map and write only their rows.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_core::{
    AnswerRows, Answers, BatchView, Cells, ColumnMut, Columns, HostCells, Op, Output, OutputValues, Status,
    ValueSpec,
};
use warpkeep_device::{Device, PinnedBuffer};
use warpkeep_gphash::gpu::{Gathered, HostGets, ValueRoom};
use warpkeep_gphash::{Geometry, Progress};

use crate::device_index::indexed;
use crate::harness::{Dice, Harness, KeyColumn, POOL, Space};
use crate::rig::Kind;

/// A test for each case, run by a function that brings the device.
macro_rules! host_split_cases {
    ($on:path) => {
        all_cases! {
            $on;
            host_split:
                split_gets_agree_with_a_map, split_gets_of_many_keys_agree_with_a_map,
                split_gets_of_cached_values_agree_with_a_map, split_gets_beside_writes_find_every_key,
                only_memory_within_reach_of_the_device_is_split
        }
    };
}

const KINDS: [Kind; 7] =
    [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Wide, Kind::Cells, Kind::TiledCells];

/// The byte in rows without an answer, and in the memory around the rows.
const UNWRITTEN: u8 = 0xaa;

/// The columns for the answers of a batch.
struct Rows {
    statuses: Vec<Status>,
    versions: Vec<u64>,
    values: PinnedBuffer,
    /// The offset of the first value, and the bytes of each.
    begin: usize,
    row: usize,
}

impl Rows {
    /// Columns of `count` rows. The values have `begin` bytes before and behind them.
    fn new(device: &Device, harness: &Harness, count: usize, begin: usize) -> Rows {
        let row = harness.table.value_spec().max_len();
        let mut values = device.pin(2 * begin + count * row).unwrap();
        values.as_mut_slice().fill(UNWRITTEN);
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

/// Looks numbers up, with a share of the values copied by the device, and checks the answers. `reached`: the device
/// reads the keys in place.
fn check(harness: &Harness, device: &Device, numbers: &[u64], share: f64, (versions, reached): (bool, bool)) {
    let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
    let column = KeyColumn::of(key, numbers.iter().map(|&number| harness.kind.key(number)));
    let mut pinned;
    let cells = match (column.cells().host(), key.fixed_len()) {
        (Some(HostCells::Fixed { bytes, .. }), Some(len)) if reached => {
            // Aligned to words, as kernels require, or not.
            let begin = if versions { 8 } else { 4 };
            pinned = device.pin(begin + bytes.len()).unwrap();
            pinned.as_mut_slice()[begin..].copy_from_slice(bytes);
            Cells::fixed(len, &pinned.as_slice()[begin..])
        }
        _ => column.cells(),
    };
    let view = BatchView::new(key, value, Columns::keys_only(Op::Get, cells)).unwrap();
    // Values are aligned to 16 bytes, or to 8.
    let mut rows = Rows::new(device, harness, numbers.len(), if versions { 16 } else { 8 });
    harness.engine.adjust(|profile| profile.device_share = share);
    let summary = rows.with(&view, versions, |mut answers| {
        assert!(harness.engine.can_split(&harness.table, &mut answers));
        let keys = view.host().unwrap().keys();
        let gets = HostGets { keys, answers, pool: &POOL, at_once: if reached { 0 } else { 50 } };
        harness.engine.split_rows(&harness.table, gets).unwrap().expect("a device index")
    });
    let mut expected = Gathered::default();
    for (index, number) in numbers.iter().enumerate() {
        let what = format!("{:?}, {number} at {index} of {}, share {share}", harness.kind, numbers.len());
        match harness.model.get(number) {
            Some((version, value)) => {
                assert_eq!((rows.statuses[index], rows.value(index)), (Status::Ok, &value[..]), "{what}");
                assert_eq!(rows.versions[index], if versions { *version } else { 0 }, "{what}");
                expected.found += 1;
            }
            None => {
                assert_eq!((rows.statuses[index], rows.versions[index]), (Status::NotFound, 0), "{what}");
                assert!(rows.value(index).iter().all(|&byte| byte == UNWRITTEN), "{what}");
                expected.absent += 1;
            }
        }
    }
    assert_eq!(summary, expected);
    let end = rows.begin + numbers.len() * rows.row;
    let (before, behind) = (&rows.values.as_slice()[..rows.begin], &rows.values.as_slice()[end..]);
    assert!(
        before.iter().chain(behind).all(|&byte| byte == UNWRITTEN),
        "{:?} wrote outside its rows",
        harness.kind
    );
}

/// Batches that end anywhere in a warp, split anywhere between device and host, with duplicate and absent keys.
pub(crate) fn split_gets_agree_with_a_map(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    for kind in KINDS {
        let harness = indexed(device, space, kind, KEYS);
        let mut dice = Dice::new(9);
        for count in [1, 31, 33, 150, 301] {
            let numbers: Vec<u64> = (0..count).map(|_| 1 + dice.below(2 * KEYS)).collect();
            for (round, share) in [0.0, 0.01, 0.4, 0.9, 1.0].into_iter().enumerate() {
                // In address order, and in batch order.
                harness
                    .engine
                    .adjust(|profile| profile.ordered_from = if round % 2 == 0 { 0 } else { usize::MAX });
                let wants = [(false, false), (false, true), (true, false), (true, true)];
                check(&harness, device, &numbers, share, wants[(round + count as usize) % 4]);
            }
        }
    }
}

/// More keys than a host thread takes at a time.
pub(crate) fn split_gets_of_many_keys_agree_with_a_map(device: &Device, space: Space) {
    let harness = indexed(device, space, Kind::Packed, 3000);
    let numbers: Vec<u64> = (0..10_000).map(|number| number * 7919 % 3100).collect();
    check(&harness, device, &numbers, 0.9, (true, true));
}

/// Cached values are copied from device memory.
pub(crate) fn split_gets_of_cached_values_agree_with_a_map(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Tiled, Kind::LongTiled] {
        let harness = indexed(device, space, kind, 100);
        while harness.engine.write_lock().maintain(&harness.table, 64).unwrap() == Progress::Working {}
        assert!(harness.engine.load_values(&harness.table, ValueRoom::Share(0.5)).unwrap().cached > 0);
        let numbers: Vec<u64> = (0..300).map(|number| number * 7 % 130).collect();
        for ordered_from in [0, usize::MAX] {
            harness.engine.adjust(|profile| profile.ordered_from = ordered_from);
            for share in [0.3, 1.0] {
                check(&harness, device, &numbers, share, (true, true));
            }
        }
    }
}

/// Beside writers.
pub(crate) fn split_gets_beside_writes_find_every_key(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in [Kind::Packed, Kind::LongTiled, Kind::TiledCells] {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 1200);
        assert!(harness.run(&harness.puts(0..KEYS, 0)).is_empty());
        harness.engine.build_index(&harness.table).unwrap();
        let (harness, done) = (&harness, AtomicBool::new(false));
        let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
        let column = KeyColumn::of(key, (0..KEYS).map(|number| kind.key(number)));
        let view = BatchView::new(key, value, Columns::keys_only(Op::Get, column.cells())).unwrap();
        let read = || {
            let (mut before, mut rows) =
                (vec![0; KEYS as usize], Rows::new(device, harness, KEYS as usize, 16));
            while !done.load(Ordering::Relaxed) {
                let summary = rows.with(&view, true, |answers| {
                    let keys = view.host().unwrap().keys();
                    let gets = HostGets { keys, answers, pool: &POOL, at_once: 90 };
                    harness.engine.split_rows(&harness.table, gets).unwrap().expect("a device index")
                });
                assert_eq!(summary, Gathered { found: KEYS, absent: 0 });
                for (index, seen) in before.iter_mut().enumerate() {
                    let (version, value) = (rows.versions[index], rows.value(index));
                    assert!(version >= *seen, "key {index} got an older version");
                    let known = |mark| kind.value(index as u64, mark) == value;
                    assert!((0..40).any(known), "key {index} has {value:?}");
                    *seen = version;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            harness.write_marks(KEYS, 1..30);
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Other memory is refused without an answer, and so are tables without a device index and keys of another length.
pub(crate) fn only_memory_within_reach_of_the_device_is_split(device: &Device, space: Space) {
    let harness = indexed(device, space, Kind::Packed, 10);
    let (key, value) = (harness.table.key_spec(), harness.table.value_spec());
    let keys: Vec<u8> = (0..10).flat_map(|number| Kind::Packed.key(number)).collect();
    let view = BatchView::new(key, value, Columns::keys_only(Op::Get, Cells::fixed(8, &keys))).unwrap();
    let host_keys = view.host().unwrap().keys();
    let refused = |values: OutputValues<'_>| {
        let mut statuses = [Status::Pending; 10];
        let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
        let mut output = output.into_host().unwrap();
        let mut answers = output.rows_mut().unwrap();
        assert!(!harness.engine.can_split(&harness.table, &mut answers));
        let gets = HostGets { keys: host_keys, answers, pool: &POOL, at_once: 0 };
        assert_eq!(harness.engine.split_rows(&harness.table, gets).unwrap(), None);
        assert_eq!(statuses, [Status::Pending; 10]);
    };
    let (mut pinned, mut other) = (device.pin(200).unwrap(), [0; 160]);
    refused(OutputValues::None);
    // The device reaches the second, but it is not aligned to words.
    for bytes in [&mut other[..], &mut pinned.as_mut_slice()[12..172]] {
        refused(OutputValues::Rows { len: 16, bytes: ColumnMut::Host(bytes) });
    }
    // Rows of another length: a copy would write outside them.
    for len in [8, 24] {
        let value = ValueSpec::fixed(len).unwrap();
        let view = BatchView::new(key, value, Columns::keys_only(Op::Get, Cells::fixed(8, &keys))).unwrap();
        let (len, mut statuses) = (len as usize, [Status::Pending; 10]);
        let mut pinned = device.pin(300).unwrap();
        pinned.as_mut_slice().fill(UNWRITTEN);
        let bytes = ColumnMut::Host(&mut pinned.as_mut_slice()[8..][..10 * len]);
        let values = OutputValues::Rows { len, bytes };
        let output = Output::new(&view, ColumnMut::Host(&mut statuses), None, values).unwrap();
        let mut output = output.into_host().unwrap();
        let gets = HostGets { keys: host_keys, answers: output.rows_mut().unwrap(), pool: &POOL, at_once: 0 };
        assert_eq!(harness.engine.split_rows(&harness.table, gets).unwrap(), None);
        assert!(pinned.as_slice().iter().all(|&byte| byte == UNWRITTEN) && statuses == [Status::Pending; 10]);
    }
    let mut rows = Rows::new(device, &harness, 10, 8);
    for cells in [Cells::fixed(8, &keys[..72]), Cells::fixed(16, &keys), Cells::Empty] {
        rows.with(&view, true, |answers| {
            let gets = HostGets { keys: cells.host().unwrap(), answers, pool: &POOL, at_once: 0 };
            assert!(harness.engine.split_rows(&harness.table, gets).is_err());
        });
    }
    harness.engine.drop_index(&harness.table);
    rows.with(&view, true, |answers| {
        let gets = HostGets { keys: host_keys, answers, pool: &POOL, at_once: 0 };
        assert_eq!(harness.engine.split_rows(&harness.table, gets).unwrap(), None);
    });
    assert!(rows.statuses.iter().all(|&status| status == Status::Pending));
}
