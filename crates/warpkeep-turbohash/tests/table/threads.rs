//! Rebuilt shards and displaced items, and readers that never miss an item.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_turbohash::{Table, TableError};

use crate::rig::{Kind, get, heap, put, remove, reopen};

/// A checkpoint is such a scan: an item it misses is lost.
#[test]
fn a_scan_misses_nothing_while_shards_are_built_anew() {
    for kind in Kind::ALL {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(2, 4000)).unwrap();
        for key in 0..4000 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let (mut seen, mut given) = (BTreeSet::new(), 0);
        let scan = table.scan_checked::<TableError>(1, |item| {
            let change = item.expect("nothing is damaged");
            seen.insert(change.key.to_vec());
            given += 1;
            // Larger and smaller again in the middle of a shard: it comes to lie at its old offset, with items
            // elsewhere.
            if given == 1500 {
                table.grow()?;
                for key in 4000..4500 {
                    put(&table, &kind.key(key), &kind.value(key, 1), 1)?;
                }
                for _ in 0..4 {
                    table.heap().reclaim();
                }
                table.shrink()?;
            }
            Ok(())
        });
        scan.unwrap();
        for key in 0..4000 {
            assert!(seen.contains(&kind.key(key)), "{kind:?}: missed {key}");
        }
    }
}

/// Keys that stay while the table around them is so full that other keys find a place only by displacement. Readers
/// and scans miss none.
#[test]
fn nobody_misses_what_moves_on() {
    for kind in Kind::ALL {
        let heap = heap(4000);
        let table = Table::create(&heap, &kind.spec(1, 64 * kind.slots() * 7 / 10)).unwrap();
        let slots = table.slots();
        let full = if kind == Kind::Values { 78 } else { 84 };
        let staying = 0..slots / 2;
        let passing = staying.end..slots * full / 100;
        for key in staying.clone().chain(passing.clone()) {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, stop, staying) = (&table, &stop, &staying);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for key in staying.clone() {
                        assert_eq!(get(table, &kind.key(key)), Some((1, kind.value(key, 1))), "key {key}");
                    }
                }
            });
            scope.spawn(move || {
                let keys: Vec<Vec<u8>> = staying.clone().map(|key| kind.key(key)).collect();
                while !stop.load(Ordering::Relaxed) {
                    table.get_many(keys.iter().map(Vec::as_slice), |index, value| {
                        let value = value.map(|value| value.to_vec());
                        assert_eq!(value, Some(kind.value(staying.start + index as u64, 1)), "key {index}");
                    });
                    let mut missed: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    // Nor is anything damaged, whatever is being written and moved.
                    let scan = table.scan_checked::<String>(1, |item| {
                        missed.remove(item.map_err(ToString::to_string)?.key);
                        Ok(())
                    });
                    scan.unwrap();
                    assert!(missed.is_empty(), "scanned without {} of those that stay", missed.len());
                }
            });
            let passer = scope.spawn(move || {
                for round in 2..40 {
                    for key in passing.clone() {
                        let (old, new) = (key + (round - 2) * slots, key + (round - 1) * slots);
                        let old = if round == 2 { key } else { old };
                        assert!(remove(table, &kind.key(old)));
                        put(table, &kind.key(new), &kind.value(new, round), round).unwrap();
                    }
                    // Back to where it was, so that it stays crowded.
                    table.shrink().unwrap();
                }
            });
            let ended = passer.join();
            stop.store(true, Ordering::Relaxed);
            ended.unwrap();
        });
        assert!(table.stats().displaced > 0, "{kind:?}: no item was displaced");
        assert_eq!(table.len(), slots * full / 100);
        assert!(Table::inspect(heap.image(), table.header()).unwrap().is_clean());
        let table = reopen(table);
        assert_eq!(table.len(), slots * full / 100);
    }
}
