//! The defects of the published code, a test for each. Those about the order in which bytes become durable are
//! caught by the crash explorer, where every flush and fence is dropped in turn; those about long searches are with
//! the adversary.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use warpkeep_image::Coherent;
use warpkeep_turbohash::{Table, TableError};

use crate::rig::{Kind, get, heap, put, remove, reopen};

/// A removal is one change, so a reader that tolerates one change would return the value of the slot's next key.
#[test]
fn a_slot_used_again_never_gives_another_key_s_value() {
    for kind in Kind::ALL {
        let heap = heap(2000);
        let table = Table::create(&heap, &kind.spec(1, 1)).unwrap();
        // One bucket, full but for the slot that the keys below take turns in, and the spare one.
        let filling = kind.slots() - 2;
        for key in 100..100 + filling {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let (stop, looked) = (AtomicBool::new(false), AtomicU32::new(0));
        let seen = std::thread::scope(|scope| {
            let (table, stop, looked) = (&table, &stop, &looked);
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    scope.spawn(move || {
                        let mut seen = 0_u64;
                        while !stop.load(Ordering::Relaxed) {
                            looked.fetch_or(1 << reader, Ordering::Relaxed);
                            for key in [0, 1, 2, 100, 101] {
                                if let Some((version, bytes)) = get(table, &kind.key(key)) {
                                    assert_eq!(bytes, kind.value(key, version), "key {key}: another's value");
                                    seen += 1;
                                } else {
                                    assert!(key < 100, "key {key} is always there");
                                }
                            }
                        }
                        seen
                    })
                })
                .collect();
            // At least this many rounds, and until a reader has read: on a busy machine readers start late.
            for round in (1..).take_while(|&round| round <= 15_000 || looked.load(Ordering::Relaxed) != 0b11)
            {
                let key = round % 3;
                put(table, &kind.key(key), &kind.value(key, round), round).unwrap();
                // An update moves it to the spare slot, and the next writer uses the one it left.
                put(table, &kind.key(100), &kind.value(100, round), round).unwrap();
                assert!(remove(table, &kind.key(key)));
            }
            stop.store(true, Ordering::Relaxed);
            readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
        });
        assert!(seen > 0, "no reader looked");
        assert_eq!(table.stats().buckets, 1, "meant to be one bucket");
    }
}

/// Address and size are one word: a reader during growth and shrinking never mixes the two.
#[test]
fn readers_never_mix_the_old_shard_with_the_new() {
    for kind in Kind::ALL {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(2, 200)).unwrap();
        for key in 0..200 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, stop) = (&table, &stop);
            for _ in 0..2 {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        for key in 0..200 {
                            assert_eq!(get(table, &kind.key(key)), Some((1, kind.value(key, 1))), "{key}");
                            assert_eq!(get(table, &kind.key(key + 1000)), None);
                        }
                    }
                });
            }
            let storm = || -> Result<(), TableError> {
                for _ in 0..150 {
                    table.grow()?;
                    table.grow()?;
                    assert!(table.shrink()?);
                }
                Ok(())
            };
            let ended = storm();
            stop.store(true, Ordering::Relaxed);
            ended.unwrap();
        });
    }
}

/// The reported number of items and load factor are right, also after opening.
#[test]
fn size_and_load_factor_are_exact() {
    for kind in Kind::ALL {
        let heap = heap(4000);
        let mut table = Table::create(&heap, &kind.spec(8, 1000)).unwrap();
        drop(heap);
        let exact = |table: &Table<Coherent>, items: u64| {
            let stats = table.stats();
            assert_eq!((table.len(), stats.items), (items, items));
            assert_eq!(stats.slots, stats.buckets * kind.slots());
            assert!((stats.load_factor - items as f64 / stats.slots as f64).abs() < 1e-12);
            assert_eq!(stats.deleted_share, stats.deleted as f64 / stats.slots as f64);
            stats
        };
        exact(&table, 0);
        for key in 0..3000 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
            put(&table, &kind.key(key), &kind.value(key, 2), 2).unwrap();
        }
        exact(&table, 3000);
        for key in 0..1000 {
            assert!(remove(&table, &kind.key(key)));
            assert!(!remove(&table, &kind.key(key)));
        }
        let before = exact(&table, 2000);
        assert!(before.deleted > 0);
        table = reopen(table);
        let after = exact(&table, 2000);
        assert_eq!((after.deleted, after.buckets), (before.deleted, before.buckets));
        assert_eq!((after.hits, after.misses), (before.hits, before.misses));
    }
}

/// The word of a shard lies in one cache line, so one flush makes it durable.
#[test]
fn no_descriptor_straddles_two_lines() {
    let heap = heap(4000);
    for shards in [1, 7, 1000] {
        let table = Table::create(&heap, &Kind::Values.spec(shards, 100)).unwrap();
        let directory = heap.image().load(table.header() + 48);
        for shard in 0..u64::from(shards) {
            let at = directory + 8 * shard;
            assert_eq!(at / 64, (at + 7) / 64);
            let run = heap.image().load(at) & ((1 << 48) - 1);
            assert!((run >> 7) > 0, "a shard lies at a multiple of 256 by its very word");
        }
    }
}
