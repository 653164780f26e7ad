//! Readers of the device index beside writers, in one launch of the simulator; and proof that every rule of their
//! protocol is needed.

mod harness;

use warpkeep_core::Op;
use warpkeep_device::{DevicePtr, Stream};
use warpkeep_suites::device::Gate;

use self::harness::{Harness, KEYS, PRESENT, Writers, equal_hash_key, long_key, value};
use crate::Layout;
use crate::gpu::batch::DeviceBatch;
use crate::gpu::params::{ApplyParams, BUSY, LINE_ENTRIES};
use crate::gpu::profile::PublishBy;
use crate::gpu::value_cache::ValueRoom;
use crate::gpu::value_cache::{Release, Selection};
use crate::gpu::write::FusedRows;
use crate::gpu::write::params::StepParams;

// Fault points of `kernels/fault_points.h`.
const UPDATE: &str = "index.update";
const INVALIDATE: &str = "index.invalidate_before_change";
const FILL: &str = "value_cache.fill_before_entry";
const RESERVE: &str = "index.reserved_until_keyed";

/// Runs one race with a seed; returns what is wrong.
type Attempt = fn(u64) -> Option<String>;

/// A table with a device index. Every other seed has the key column.
fn indexed(seed: u64, key: fn(u64) -> Vec<u8>) -> Harness {
    indexed_with_values(seed, key, 16)
}

fn indexed_with_values(seed: u64, key: fn(u64) -> Vec<u8>, value_len: u32) -> Harness {
    let harness = Harness::with_keys(seed, Layout::Packed, value_len, key);
    harness.engine.keep_keys(seed.is_multiple_of(2));
    let report = harness.engine.build_index(&harness.table).unwrap();
    assert_eq!(report.key_bytes > 0, seed.is_multiple_of(2));
    harness
}

/// Readers beside a two-phase write.
fn two_phase_write(seed: u64) -> Option<String> {
    two_phase_write_to(seed, indexed(seed, long_key)).map(|wrong| format!("two-phase write, {wrong}"))
}

/// The same, of keys with equal hashes.
fn two_phase_write_of_equal_hashes(seed: u64) -> Option<String> {
    // Without a key column, readers would take such keys for the same key.
    let harness = indexed(2 * seed, equal_hash_key);
    two_phase_write_to(seed, harness).map(|wrong| format!("equal hashes, {wrong}"))
}

/// The same, of keys in the value cache.
fn two_phase_write_of_cached_values(seed: u64) -> Option<String> {
    let harness = indexed(seed, long_key);
    let share = [1.0, 0.5][seed as usize / 2 % 2];
    let report = harness.engine.load_values(&harness.table, ValueRoom::Share(share)).unwrap();
    assert!(report.cached >= PRESENT / 2);
    two_phase_write_to(seed, harness).map(|wrong| format!("cached values, {wrong}"))
}

fn two_phase_write_to(seed: u64, mut harness: Harness) -> Option<String> {
    let mut failure = None;
    let batches = [(Op::Put, 0..30), (Op::Delete, 10..40), (Op::Put, 20..KEYS), (Op::Put, 20..KEYS)];
    let batches: Vec<(Op, Vec<u64>)> = batches
        .into_iter()
        .flat_map(|(op, numbers)| harness.batches(numbers).into_iter().map(move |numbers| (op, numbers)))
        .collect();
    for (round, (op, numbers)) in batches.into_iter().enumerate() {
        let first = 1000 * (round as u64 + 1);
        let before = harness.items.clone();
        harness.write(op, numbers.iter().copied(), first, |harness, publish| {
            let seen = harness.race(Writers { publish: Some(publish), ..Writers::default() });
            for (number, (from_image, from_index)) in (0..).zip(seen.image.into_iter().zip(seen.index)) {
                let old = before.get(&number).copied();
                let index = numbers.iter().position(|&other| other == number);
                let new = match (index, op) {
                    (None, _) => old,
                    (Some(_), Op::Delete) => None,
                    (Some(index), _) => {
                        let version = first + index as u64;
                        Some((version, value(number, version)))
                    }
                };
                // One reader reads the image and then the index: it must not see the new item before the old one.
                if ![(old, old), (old, new), (new, new)].contains(&(from_image, from_index)) {
                    let what =
                        format!("round {round}: key {number} has {from_image:?} and then {from_index:?}");
                    failure.get_or_insert(format!("seed {seed}: {what}, was {old:?}, is to be {new:?}"));
                }
            }
        });
        failure = failure.or_else(|| harness.mismatch().map(|wrong| format!("seed {seed}: {wrong}")));
    }
    failure
}

/// Readers beside the kernel that fills rows of the value cache, which held other values before.
fn fill(seed: u64) -> Option<String> {
    let harness = indexed(seed, long_key);
    let Harness { engine, table, .. } = &harness;
    engine.load_values(table, ValueRoom::Share(1.0)).unwrap();
    let params = harness.params();
    let mut lock = engine.write_lock();
    let rows = engine.device_index.state().values.rows.clone().unwrap();
    rows.set_free_rows(0, 0);
    engine.release(&mut lock.workspace, params, &rows, &Release::ALL, 0).unwrap();
    let entries = params.index.lines * LINE_ENTRIES;
    let choose = Selection {
        params,
        frequencies: DevicePtr::NULL,
        entries,
        min_frequency: 0,
        max_frequency: 0,
        limit: PRESENT / 2,
    };
    // Each key gets a row that held another key's value.
    let fill = engine.choose(&mut lock.workspace, table, &rows, &choose, 9).unwrap();
    lock.workspace.stream.synchronize().unwrap();
    let seen = harness.race(Writers { fill, ..Writers::default() });
    drop(lock);
    for (number, found) in (0..).zip(&seen.index) {
        let expected = harness.items.get(&number).copied();
        if *found != expected {
            return Some(format!("seed {seed}: key {number} has {found:?} and not {expected:?}"));
        }
    }
    harness.mismatch().map(|wrong| format!("seed {seed}: {wrong}"))
}

/// Readers beside two writers of the index: the device publishes new keys, and the change feed applies the CPU's puts
/// of other keys with the same hashes.
fn change_feed_of_equal_hashes(seed: u64) -> Option<String> {
    const FIRST_VERSION: u64 = 9000;
    // With a key column.
    let mut harness = indexed(2 * seed, equal_hash_key);
    let numbers: Vec<u64> = (PRESENT..KEYS).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| equal_hash_key(number)).collect();
    let values: Vec<[u8; 16]> = (FIRST_VERSION..)
        .zip(&numbers)
        .map(|(version, &number)| bytemuck::cast([value(number, version).to_le_bytes(); 2]))
        .collect();
    let mut batch = DeviceBatch::default();
    for (key, value) in keys.iter().zip(&values).step_by(2) {
        batch.push(Op::Put, key, value, 0);
    }
    let mut lock = harness.engine.write_lock();
    let mut stage = lock.stage(&harness.table, &batch, FIRST_VERSION).unwrap();
    for (index, version) in (FIRST_VERSION..).enumerate().take(keys.len()).skip(1).step_by(2) {
        let lock = harness.table.lock_key(&keys[index]);
        let mut by_cpu = harness.table.stage([lock]);
        let seat = by_cpu.seat(&keys[index], lock);
        by_cpu.put(&seat, &keys[index], &values[index], version).unwrap();
        by_cpu.publish();
    }
    let changes = harness.table.changes.pending().take_items().expect("fewer than the feed holds");
    assert_eq!(changes.len(), numbers.len() / 2);
    let column = harness.device.upload(&changes).unwrap();
    let apply = ApplyParams {
        table: harness.params(),
        count: changes.len() as u64,
        changes: column.ptr(),
        removed: BUSY,
    };
    let writers = Writers { publish: Some(stage.publish_params()), apply: Some(apply), ..Writers::default() };
    let seen = match harness.try_race(writers) {
        Ok(seen) => seen,
        Err(error) => return Some(format!("seed {seed}: {error}")),
    };
    stage.publish().unwrap();
    drop(stage);
    drop(lock);
    for (index, &number) in numbers.iter().enumerate() {
        // The device numbers the operations of its batch, which are the even ones here.
        let version = FIRST_VERSION + if index % 2 == 0 { index / 2 } else { index } as u64;
        let item = bytemuck::pod_read_unaligned(&values[index][..8]);
        harness.items.insert(number, (version, item));
    }
    for (number, &found) in (0..).zip(&seen.index) {
        let expected = harness.items.get(&number).copied();
        if found != expected && (number < PRESENT || found.is_some()) {
            return Some(format!("seed {seed}: key {number} has {found:?} and not {expected:?}"));
        }
    }
    harness.mismatch().map(|wrong| format!("seed {seed}: {wrong}"))
}

/// Readers beside each step of fused writes in chunks of `chunk` operations. They read the image, the device index,
/// and the image again.
fn fused_write(seed: u64, chunk: u64, publish_by: PublishBy) -> Option<String> {
    // Where the host stores trailers, records are clustered every other time.
    let value_len = if publish_by != PublishBy::Device && seed / 4 % 2 == 1 { 128 } else { 16 };
    // With a key column: without it, batches are written in two phases.
    let mut harness = indexed_with_values(2 * seed, long_key, value_len);
    harness.engine.adjust(|profile| profile.publish_by = publish_by);
    harness.engine.adjust(|profile| profile.chunk_operations = chunk);
    let mut failure = None;
    for (op, numbers) in [(Op::Put, 0..30), (Op::Delete, 10..40), (Op::Put, 20..KEYS), (Op::Update, 20..KEYS)]
    {
        let first = 1000 * (harness.items.len() as u64 + 1 + op as u64);
        let before = harness.items.clone();
        for (version, number) in (first..).zip(numbers.clone()) {
            match op {
                Op::Delete => harness.items.remove(&number),
                _ => harness.items.insert(number, (version, value(number, version))),
            };
        }
        let keys: Vec<u8> = numbers.clone().flat_map(|number| harness.row(number)).collect();
        let values: Vec<u64> = (first..)
            .zip(numbers.clone())
            .flat_map(|(version, number)| vec![value(number, version); value_len as usize / 8])
            .collect();
        let keys = harness.device.upload(&keys).unwrap();
        let values = harness.device.upload(&values).unwrap();
        let statuses = harness.device.allocate_zeroed(KEYS as usize).unwrap();
        let count = numbers.end - numbers.start;
        let rows = FusedRows { op, count, keys: keys.ptr(), values: values.ptr(), statuses: statuses.ptr() };
        let stream = harness.device.stream().unwrap();
        let mut steps = 0;
        let each_step = |params: &StepParams, _, _: &Stream| {
            steps += 1;
            let step_after_read = seed / 2 % 2 == 1;
            let seen = harness.race(Writers { step: Some(*params), step_after_read, ..Writers::default() });
            for number in 0..KEYS {
                let index = number as usize;
                let reads = [seen.image[index], seen.index[index], seen.second[index]];
                let (old, new) = (before.get(&number).copied(), harness.items.get(&number).copied());
                // No read returns the old item after one has returned the new one.
                let first_new = reads.iter().position(|read| *read == new).unwrap_or(reads.len());
                let (earlier, later) = reads.split_at(first_new);
                if earlier.iter().any(|read| *read != old) || later.iter().any(|read| *read != new) {
                    let what = format!("{op:?}, step {}: key {number} has {reads:?}", params.step);
                    failure.get_or_insert(format!("seed {seed}: {what}, was {old:?}, is to be {new:?}"));
                }
            }
            Ok(())
        };
        // SAFETY: the columns have `count` rows and are used by this call only.
        let written = unsafe {
            harness.engine.write_lock().write_in_steps(&harness.table, &rows, None, first, &stream, each_step)
        }
        .unwrap();
        if written.is_none_or(|counts| counts.by_cpu > 0) {
            failure.get_or_insert(format!("seed {seed}: {op:?} of {numbers:?} returned {written:?}"));
        }
        // The device publishes deletes; its chunks are longer than those of the host.
        let one_chunk = chunk >= KEYS || (op == Op::Delete && publish_by != PublishBy::Device);
        assert_eq!(steps > 3, !one_chunk, "{steps}");
        failure = failure.or_else(|| harness.mismatch().map(|wrong| format!("seed {seed}: {wrong}")));
    }
    failure
}

fn fused_write_in_one_chunk(seed: u64) -> Option<String> {
    fused_write(seed, KEYS, PublishBy::Device).map(|wrong| format!("one chunk, {wrong}"))
}

fn fused_write_in_chunks(seed: u64) -> Option<String> {
    fused_write(seed, 4, PublishBy::Device).map(|wrong| format!("chunks, {wrong}"))
}

fn fused_write_published_by_host(seed: u64) -> Option<String> {
    fused_write(seed, 9, PublishBy::Host(2)).map(|wrong| format!("published by the host, {wrong}"))
}

const SEEDS: u64 = 60;

/// The only test of this module that runs kernels: an active fault point is active in all kernels of the process.
#[test]
fn readers_beside_writers_see_the_old_item_or_the_new_one() {
    for seed in 0..SEEDS {
        assert_eq!(two_phase_write(seed), None);
        assert_eq!(two_phase_write_of_cached_values(seed), None);
        assert_eq!(fill(seed), None);
    }
    for seed in 0..SEEDS / 3 {
        assert_eq!(two_phase_write_of_equal_hashes(seed), None);
        assert_eq!(change_feed_of_equal_hashes(seed), None);
    }
    for seed in 0..SEEDS / 10 {
        assert_eq!(fused_write_in_one_chunk(seed), None);
        assert_eq!(fused_write_in_chunks(seed), None);
    }
    for seed in 0..SEEDS / 7 {
        assert_eq!(fused_write_published_by_host(seed), None);
    }
    let faults: [(&str, &str, Attempt); 12] = [
        (RESERVE, "change feed of equal hashes", change_feed_of_equal_hashes),
        (UPDATE, "fused write in one chunk", fused_write_in_one_chunk),
        (INVALIDATE, "fused write in one chunk", fused_write_in_one_chunk),
        (UPDATE, "fused write in chunks", fused_write_in_chunks),
        (INVALIDATE, "fused write in chunks", fused_write_in_chunks),
        (UPDATE, "fused write published by the host", fused_write_published_by_host),
        (INVALIDATE, "fused write published by the host", fused_write_published_by_host),
        (UPDATE, "two-phase write of cached values", two_phase_write_of_cached_values),
        (INVALIDATE, "two-phase write of cached values", two_phase_write_of_cached_values),
        (FILL, "fill of the value cache", fill),
        (UPDATE, "two-phase write", two_phase_write),
        (INVALIDATE, "two-phase write", two_phase_write),
    ];
    let attempts = faults.map(|(point, form, attempt)| (point, form, move || (0..SEEDS).find_map(attempt)));
    attempts
        .iter()
        .fold(Gate::new("readers beside writers"), |gate, (point, form, attempt)| {
            gate.with(point, form, attempt)
        })
        .run();
}
