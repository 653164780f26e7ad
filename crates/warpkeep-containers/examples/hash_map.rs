//! A feature store: ids to rows, in batches, with what changes and what is saved.
//!
//! `cargo run -p warpkeep-containers --example hash_map` uses the first GPU, the simulator where there is none, and the CPU if told so by the
//! argument `cpu`.

use std::error::Error;

use warpkeep_containers::{HashMap, HashMapOptions, MapOp, MapStatus, Upsert};
use warpkeep_device::{Device, DeviceChoice};

fn create() -> Result<HashMap, Box<dyn Error>> {
    let options = HashMapOptions::default();
    if std::env::args().nth(1).as_deref() == Some("cpu") {
        return Ok(HashMap::on_cpu(&options));
    }
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim));
    Ok(HashMap::new(&device?, &options)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let rows = create()?;
    // A bulk build. Their number is not given in advance.
    let ids: Vec<u64> = (0..50_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let numbers: Vec<u64> = (0..50_000).collect();
    rows.insert(&ids, &numbers)?;

    // Some ids are new and some are not; those that are there keep their row.
    let arrived = [ids[3], 12, ids[4], 12];
    for (id, answer) in arrived.iter().zip(rows.insert(&arrived, &[50_000, 50_001, 50_002, 50_003])?) {
        match answer.status {
            MapStatus::Inserted => println!("{id:#x} is new"),
            _ => println!("{id:#x} has the row {}", answer.before),
        }
    }

    // Different operations, in their order.
    let answers = rows.apply(&[MapOp::find(12), MapOp::put(12, 7), MapOp::erase(12), MapOp::contains(12)])?;
    assert_eq!(answers[2].before, 7);
    assert_eq!(answers[3].status, MapStatus::Absent);
    // Another map counts how often ids were asked for.
    let asked = create()?;
    asked.upsert(Upsert::Add, &arrived, &[1; 4])?;
    assert_eq!(asked.find(&[12])?, [Some(2)]);

    let path = std::env::temp_dir().join(format!("rows-{}.map", std::process::id()));
    rows.save(&path)?;
    let loaded = HashMap::load_on_cpu(&path, &HashMapOptions::default())?;
    assert_eq!(loaded.find(&ids[..2])?, rows.find(&ids[..2])?);
    std::fs::remove_file(&path)?;
    rows.verify()?;
    println!("{:?}", rows.stats()?);
    Ok(())
}
