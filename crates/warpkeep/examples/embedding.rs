//! Trains a toy embedding table for a few steps, backs it up on the way, and reports how long a lookup took.
//!
//! Run it twice with the same directory: the second time the rows already exist.
//!
//! ```text
//! cargo run --release -p warpkeep --example embedding -- ./embedding
//! ```

use std::path::PathBuf;
use std::time::Instant;

use warpkeep::{Durability, Error, MergeRule, Store, TableOptions};

const WIDTH: usize = 32;
const ROWS: u64 = 100_000;
const STEP: usize = 4096;

fn main() -> Result<(), Error> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("give a directory to keep the store in");
        std::process::exit(2);
    };
    let store = Store::open(&directory)?;
    println!("{:?} after {:.3} s", store.report().origin, store.report().seconds);
    if store.tables().is_empty() {
        let options = TableOptions::typed::<u64, [f32; WIDTH]>()?.capacity(ROWS).merge(MergeRule::AddF32);
        let rows = store.create_table("rows", options)?.typed::<u64, [f32; WIDTH]>()?;
        let fresh: Vec<(u64, [f32; WIDTH])> = (0..ROWS).map(|id| (id, [0.0; WIDTH])).collect();
        rows.put_many(&fresh, Durability::Process)?;
        println!("made {ROWS} rows");
    }

    let rows = store.typed::<u64, [f32; WIDTH]>("rows")?;
    let gradient = [0.125_f32; WIDTH].map(f32::to_le_bytes).concat();
    for step in 0..10_u64 {
        // The ids of a step: spread over the table, different in each step.
        let ids: Vec<u64> = (0..STEP as u64).map(|i| (i * 2_654_435_761 + step * 97) % ROWS).collect();
        let begun = Instant::now();
        let found = rows.get_many(&ids)?;
        let looked_up = begun.elapsed();
        assert!(found.iter().all(Option::is_some), "every row was made");

        let mut gradients = rows.table().batch();
        for id in ids {
            gradients.merge(id, &gradient)?;
        }
        let begun = Instant::now();
        assert_eq!(rows.table().run(&gradients, Durability::Power)?.first_error(), None);
        println!(
            "step {step}: {STEP} rows read in {looked_up:.1?}, changed durably in {:.1?}",
            begun.elapsed()
        );
    }
    drop(rows);
    store.close()
}
