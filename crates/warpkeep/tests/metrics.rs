//! The metrics that a store passes to a recorder. One test, because a process has one recorder.

use std::collections::HashMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};

#[test]
fn operations_batches_tables_and_checkpoints_are_told() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();

    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(2000);
    let table = store.create_table("t", options).unwrap();
    let mut puts = table.batch();
    for key in 0..1000 {
        puts.put(key, key).unwrap();
    }
    assert_eq!(table.run(&puts, Durability::Process).unwrap().first_error(), None);
    assert_eq!(table.run(&puts, Durability::Power).unwrap().first_error(), None);
    let mut gets = table.batch();
    for key in 500..1500 {
        gets.get(key).unwrap();
    }
    assert_eq!(table.run(&gets, Durability::Process).unwrap().first_error(), None);
    let mut into = warpkeep::Results::new(&gets.view());
    table.run_into(&gets.view(), Durability::Process, &mut into).unwrap();
    // Enough that several threads answer into the caller's arrays.
    let mut many = table.batch();
    for key in 0..40_000 {
        many.get(key).unwrap();
    }
    let mut into = warpkeep::Results::new(&many.view());
    table.run_into(&many.view(), Durability::Process, &mut into).unwrap();
    assert!(table.get(1).unwrap().is_some() && table.get(9999).unwrap().is_none());
    table.insert(1, 1, Durability::Process).unwrap();
    table.fetch_add(1, 1, Durability::Process).unwrap();
    assert!(table.merge(1, 1, Durability::Process).is_err());
    store.checkpoint().unwrap();
    table.grow().unwrap();
    let expected_load = table.stats().unwrap().load_factor();
    drop(table);
    store.close().unwrap();

    let (mut numbers, mut samples) = (HashMap::new(), HashMap::new());
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let mut labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort();
        let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
        match value {
            DebugValue::Counter(count) => drop(numbers.insert(name, count as f64)),
            DebugValue::Gauge(value) => drop(numbers.insert(name, value.into_inner())),
            DebugValue::Histogram(values) => {
                samples.insert(name, values.into_iter().map(f64::from).collect::<Vec<_>>());
            }
        }
    }
    let operations = |op: &str, status: &str| {
        let name = format!("warpkeep_operations_total{{op={op},status={status},table=t}}");
        numbers.get(&name).copied().unwrap_or(0.0)
    };
    assert_eq!(operations("put", "done"), 2000.0);
    assert_eq!(operations("get", "done"), 2001.0, "batches, answers elsewhere, single keys: {numbers:#?}");
    assert_eq!(operations("get", "declined"), 40_001.0);
    assert_eq!(operations("insert", "declined"), 1.0);
    assert_eq!(operations("fetch-add", "done"), 1.0);
    assert_eq!(operations("merge", "refused"), 1.0);
    assert_eq!(operations("put", "failed"), 0.0);

    assert_eq!(numbers["warpkeep_items{table=t}"], 1000.0);
    let load = numbers["warpkeep_load_factor{table=t}"];
    assert!((load - expected_load).abs() < 0.01, "{load}, not {expected_load}");
    assert_eq!(numbers["warpkeep_growths_total{table=t}"], 1.0);
    assert_eq!(numbers["warpkeep_checkpoints_total{}"], 1.0);
    assert!(numbers["warpkeep_checkpoint_bytes{}"] > 16_000.0);
    assert!(numbers["warpkeep_open_seconds{origin=created}"] > 0.0);
    assert_eq!(numbers["warpkeep_checkpoint_owed{}"], 0.0);
    assert_eq!(numbers["warpkeep_checkpoint_items{}"], 0.0, "none is in progress");
    assert_eq!(samples["warpkeep_checkpoint_seconds{}"].len(), 1);
    for (kind, batches) in [("read", 2), ("process", 1), ("power", 1)] {
        let sizes = &samples[&format!("warpkeep_batch_operations{{kind={kind},table=t}}")];
        assert_eq!(sizes.iter().filter(|&&size| size == 1000.0).count(), batches, "{kind}: {sizes:?}");
        let seconds = &samples[&format!("warpkeep_batch_seconds{{kind={kind},table=t}}")];
        assert!(seconds.iter().all(|&seconds| seconds > 0.0 && seconds < 60.0), "{kind}: {seconds:?}");
        assert_eq!(seconds.len(), sizes.len());
    }
}
