//! A batch that a device publishes beside what is told of the CPU's: of keys that have the same hashes.

use warpkeep_core::Op;

use super::bench::{Beside, KEYS, THERE, twin_key, value};
use super::mirrored;
use crate::gpu::DeviceBatch;
use crate::gpu::params::{TellParams, VEILED};

/// The first version.
const FIRST: u64 = 9000;

/// New keys are published, and their twins, which the CPU has put just before, are told; what is wrong.
pub(super) fn beside_a_told_twin(seed: u64) -> Option<String> {
    // With keys beside the entries.
    let mut bench = mirrored(2 * seed, twin_key);
    let numbers: Vec<u64> = (THERE..KEYS).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| twin_key(number)).collect();
    let values: Vec<[u8; 16]> = (FIRST..)
        .zip(&numbers)
        .map(|(version, &number)| bytemuck::cast([value(number, version).to_le_bytes(); 2]))
        .collect();
    let mut batch = DeviceBatch::default();
    for (key, value) in keys.iter().zip(&values).step_by(2) {
        batch.push(Op::Put, key, value, 0);
    }
    let mut turn = bench.engine.turn();
    // Every second version is one of the CPU's.
    let mut stage = turn.stage(&bench.table, &batch, FIRST).unwrap();
    for (index, version) in (FIRST..).enumerate().take(keys.len()).skip(1).step_by(2) {
        let lock = bench.table.lock_key(&keys[index]);
        let mut by_cpu = bench.table.stage([lock]);
        let seat = by_cpu.seat(&keys[index], lock);
        by_cpu.put(&seat, &keys[index], &values[index], version).unwrap();
        by_cpu.publish();
    }
    let told = bench.table.changes.pending().take_items().expect("they are few");
    assert_eq!(told.len(), numbers.len() / 2);
    let column = bench.device.upload(&told).unwrap();
    let tell =
        TellParams { table: bench.params(), count: told.len() as u64, told: column.ptr(), removed: VEILED };
    let beside = Beside { publish: Some(stage.publish_params()), tell: Some(tell), ..Beside::default() };
    let seen = match bench.try_race(beside) {
        Ok(seen) => seen,
        Err(error) => return Some(format!("seed {seed}: {error}")),
    };
    stage.publish().unwrap();
    drop(stage);
    drop(turn);
    for (place, &number) in numbers.iter().enumerate() {
        // The device numbers what is in its batch.
        let version = FIRST + if place % 2 == 0 { place / 2 } else { place } as u64;
        let item = bytemuck::pod_read_unaligned(&values[place][..8]);
        bench.items.insert(number, (version, item));
    }
    for (number, &found) in (0..).zip(&seen.cached) {
        let expected = bench.items.get(&number).copied();
        if found != expected && (number < THERE || found.is_some()) {
            return Some(format!("seed {seed}: key {number} has {found:?} and not {expected:?}"));
        }
    }
    bench.wrong().map(|what| format!("seed {seed}: {what}"))
}
