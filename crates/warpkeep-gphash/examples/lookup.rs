//! How fast a table is by itself: 8-byte keys, 128-byte values, uniform, in an image on tmpfs.
//!
//! `cargo run --release -p warpkeep-gphash --example lookup -- [items] [image file]`

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec, mix64};
use warpkeep_gphash::{Geometry, Layout, Table, TableError, TableSpec};
use warpkeep_image::{Coherent, CreateOptions, Heap, HeapOptions, Image};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let items: u64 = arguments.next().map_or(Ok(4_000_000), |items| items.parse())?;
    let path = arguments.next().map_or_else(|| PathBuf::from("/dev/shm/warpkeep-lookup"), PathBuf::from);
    let create = CreateOptions { len: items * 176 + (64 << 20), ..CreateOptions::default() };
    let image = Arc::new(Image::create(&path, Coherent, &create)?);
    image.begin(1)?;
    if let Some(file) = image.file() {
        println!("{}", file.page_report()?);
    }
    let heap = Arc::new(Heap::recover::<TableError>(&image, HeapOptions::default(), |_| Ok(()))?);
    let (key, value) = (KeySpec::U64, ValueSpec::fixed(128)?);
    let spec = TableSpec {
        key,
        value,
        geometry: Geometry::default(),
        capacity: items,
        layout: Layout::Packed,
        merge: MergeRule::None,
        seed: Seed(1),
    };
    let table = Table::create(&heap, &spec)?;

    // Scattered, so that neighbours in time are none in the table.
    let key_of = |number: u64| mix64(Seed(9), number).to_le_bytes();
    let begun = Instant::now();
    for first in (0..items).step_by(64) {
        let keys: Vec<[u8; 8]> = (first..(first + 64).min(items)).map(key_of).collect();
        loop {
            let mut stage = table.stage(keys.iter().map(|key| table.lock_key(key)));
            let staged = keys.iter().try_for_each(|key| {
                let seat = stage.seat(key, table.lock_key(key));
                stage.put(&seat, key, &[7; 128], 1)
            });
            match staged {
                Ok(()) => break drop(stage.publish()),
                Err(TableError::Full) => {
                    let seen = stage.seen();
                    drop(stage);
                    table.make_room(seen)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    report("put, batches of 64", items, begun);
    println!("load factor {:.3}", table.stats().load_factor);

    for threads in [1, 2, 1, 2] {
        let each = 4_000_000 / threads;
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let table = &table;
                scope.spawn(move || {
                    let mut row = [0; 128];
                    for number in 0..each {
                        let wanted = mix64(Seed(thread), number) % items;
                        table.get(&key_of(wanted), |value| value.copy_to(&mut row));
                    }
                    black_box(row);
                });
            }
        });
        report(&format!("get one by one, {threads} threads"), threads * each, begun);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let table = &table;
                scope.spawn(move || {
                    let mut rows = vec![0; 1024 * 128];
                    for batch in 0..each / 1024 {
                        let key = |number| key_of(mix64(Seed(thread + 7), batch * 1024 + number) % items);
                        let keys: Vec<[u8; 8]> = (0..1024).map(key).collect();
                        table.get_many(keys.iter().map(|key| &key[..]), |index, value| {
                            let row = &mut rows[128 * index..128 * (index + 1)];
                            value.expect("every key is there").copy_to(row);
                        });
                    }
                    black_box(rows);
                });
            }
        });
        report(&format!("get, batches of 1024, {threads} threads"), threads * (each / 1024 * 1024), begun);
    }
    drop(table);
    drop((heap, image));
    std::fs::remove_file(path)?;
    Ok(())
}

fn report(what: &str, operations: u64, begun: Instant) {
    println!("{what}: {:.2} M/s", operations as f64 / begun.elapsed().as_secs_f64() / 1e6);
}
