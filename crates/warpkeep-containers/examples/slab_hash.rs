//! Sessions and their events: a slab map, a set and a multimap that change all the time.
//!
//! `cargo run -p warpkeep-containers --example slab_hash` uses the first GPU, the simulator where there is none, and the CPU if told so by the
//! argument `cpu`.

use std::error::Error;

use warpkeep_containers::{
    SlabAnswer, SlabHashOptions, SlabMap, SlabMultiMap, SlabMultiRequest, SlabRequest, SlabSet,
};
use warpkeep_device::{Device, DeviceChoice};

fn device() -> Result<Option<Device>, Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("cpu") {
        return Ok(None);
    }
    Ok(Some(Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (device, options) = (device()?, SlabHashOptions::default());
    let mut sessions = match &device {
        Some(device) => SlabMap::<u64, u64>::new(device, options)?,
        None => SlabMap::on_cpu(options),
    };
    // A bulk build. Of equal keys the first is stored.
    let ids: Vec<u64> = (0..20_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let started: Vec<u64> = (0..20_000).collect();
    sessions.build(&ids, &started)?;

    // Any mix of requests in one launch. Those for one key take effect in some order.
    let answers = sessions.apply(&[
        SlabRequest::Delete(ids[3]),
        SlabRequest::Insert(ids[4], 99),
        SlabRequest::Replace(ids[5], 99),
        SlabRequest::Search(12),
    ])?;
    let expected =
        [SlabAnswer::Removed(3), SlabAnswer::Present(4), SlabAnswer::Updated(5), SlabAnswer::Absent];
    assert_eq!(answers, expected);

    // Sessions that are seen for the first time. A set has keys alone: four bytes each.
    let mut seen: SlabSet = match &device {
        Some(device) => SlabSet::new(device, options)?,
        None => SlabSet::on_cpu(options),
    };
    let new = seen.insert(&[1, 2, 1, 3])?.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
    assert_eq!(new, 3);

    // All events of a session, in the order of their batches.
    let mut events: SlabMultiMap = match &device {
        Some(device) => SlabMultiMap::new(device, options)?,
        None => SlabMultiMap::on_cpu(options),
    };
    events.apply(&[SlabMultiRequest::Insert(7, 100), SlabMultiRequest::Insert(8, 101)])?;
    events.apply(&[SlabMultiRequest::Insert(7, 102)])?;
    assert_eq!(events.search_all(&[7, 8, 9])?, [vec![100, 102], vec![101], vec![]]);

    let path = std::env::temp_dir().join(format!("sessions-{}.slab", std::process::id()));
    sessions.save(&path)?;
    let loaded = SlabMap::<u64, u64>::load_on_cpu(&path, options)?;
    std::fs::remove_file(&path)?;
    assert_eq!(loaded.search(&ids[..6])?, sessions.search(&ids[..6])?);
    println!("{:?}", sessions.stats()?);
    Ok(())
}
