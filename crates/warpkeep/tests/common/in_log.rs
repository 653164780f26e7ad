//! The contents of a log's files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use warpkeep::engine::ChangeKind;
use warpkeep_log::{LogError, LogOptions, OsDisk, Recovery};

/// What a power cut now would leave of tables whose keys are numbers: the contents of the log's files, some of
/// which was synced. No background thread writes to the log, so nothing else is there.
pub(crate) fn in_log(log: &Path) -> BTreeMap<u64, Vec<u8>> {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(log).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let mut items: BTreeMap<u64, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    let mut take = |change: warpkeep::engine::Change<'_>| {
        let Ok(key) = change.key.try_into().map(u64::from_le_bytes) else { return };
        let known = items.entry(key).or_default();
        if change.table != 0 && known.0 < change.version {
            *known = (change.version, (change.kind == ChangeKind::Put).then(|| change.value.to_vec()));
        }
    };
    let recovery =
        Recovery::open(Arc::new(OsDisk::open(copy.path()).unwrap()), LogOptions::default()).unwrap();
    recovery
        .load_checkpoint(|change| {
            take(change);
            Ok::<(), LogError>(())
        })
        .unwrap();
    recovery
        .redo(|record| {
            record.changes().for_each(&mut take);
            Ok::<(), LogError>(())
        })
        .unwrap();
    items.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect()
}
