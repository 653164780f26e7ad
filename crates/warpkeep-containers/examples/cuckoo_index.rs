//! An index of records by the hash of their key: the records stay where they are, and the index knows their places.
//!
//! `cargo run -p warpkeep-containers --example cuckoo_index` uses the first GPU, the simulator where there is none, and the CPU if told so by the
//! argument `cpu`.

use std::error::Error;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use warpkeep_containers::{CuckooIndex, CuckooIndexOptions, IndexOp, IndexStatus};
use warpkeep_device::{Device, DeviceChoice};

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = CuckooIndexOptions::default().items(20_000);
    let index = if std::env::args().nth(1).as_deref() == Some("cpu") {
        CuckooIndex::on_cpu(&options)?
    } else {
        let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
        CuckooIndex::new(&device, &options)?
    };
    let mut records: Vec<(String, u32)> = (0..10_000).map(|i| (format!("user {i}"), i)).collect();
    let hashes: Vec<u64> = records.iter().map(|(key, _)| hash(key)).collect();
    let places: Vec<u32> = (0..10_000).collect();
    let answers = index.insert(&hashes, &places)?;
    assert!(answers.iter().all(|answer| answer.status.is_added()));

    // A search gives the places of all records whose hash matches in part. The caller compares keys.
    let find = |records: &[(String, u32)], key: &str| -> Result<Option<u32>, Box<dyn Error>> {
        let matches = index.search_all(&[hash(key)])?.remove(0);
        Ok(matches.into_iter().map(|at| &records[at as usize]).find(|it| it.0 == key).map(|it| it.1))
    };
    assert_eq!(find(&records, "user 77")?, Some(77));
    assert_eq!(find(&records, "user 10000")?, None);

    // A new version is stored elsewhere; then the index is changed, in the order of the batch.
    records.push(("user 77".to_owned(), 1077));
    let (of_77, place) = (hash("user 77"), records.len() as u32 - 1);
    let answers = index.apply(&[IndexOp::replace(of_77, 77, place), IndexOp::delete(hash("user 78"), 78)])?;
    assert_eq!((answers[0].status, answers[1].status), (IndexStatus::Replaced, IndexStatus::Deleted));
    assert_eq!((find(&records, "user 77")?, find(&records, "user 78")?), (Some(1077), None));

    let path = std::env::temp_dir().join(format!("users-{}.index", std::process::id()));
    index.save(&path)?;
    let loaded = CuckooIndex::load_on_cpu(&path)?;
    std::fs::remove_file(&path)?;
    assert_eq!(loaded.len()?, 9999);
    println!("{:?}", index.stats()?);
    Ok(())
}
