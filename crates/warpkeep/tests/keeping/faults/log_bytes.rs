//! Damage to the log directory: flipped bytes and cut files.

use std::path::Path;
use std::sync::Arc;

use warpkeep::engine::{Change, ChangeKind};
use warpkeep::{Error, Origin};
use warpkeep_log::{LogError, OsDisk, Recovery};

use super::written::Written;
use crate::common::{Home, Model, assert_holds, assert_remedy, copy_directory, files_in, flip, restore, say};

/// The outcomes of reading damaged logs.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) refused: u64,
    /// It ends earlier, and reports that.
    pub(crate) shorter: u64,
    pub(crate) unharmed: u64,
}

impl Count {
    pub(crate) fn all(&self) -> u64 {
        self.refused + self.shorter + self.unharmed
    }
}

/// Reads the log as a rebuild would; nothing is changed.
fn read(home: &Home) -> Result<(Model, Recovery), LogError> {
    let recovery = Recovery::open(Arc::new(OsDisk::open(&home.log)?), home.log_options.clone())?;
    let mut model = Model::new();
    let mut apply = |change: Change<'_>| {
        let cell = u64::from_le_bytes(change.key.try_into().expect("a cell"));
        match change.kind {
            ChangeKind::Put => model.insert(cell, change.value.to_vec()),
            ChangeKind::Delete => model.remove(&cell),
        };
    };
    recovery.load_checkpoint(|change| {
        apply(change);
        Ok::<(), LogError>(())
    })?;
    recovery.redo(|record| {
        record.changes().for_each(&mut apply);
        Ok::<(), LogError>(())
    })?;
    Ok((model, recovery))
}

/// Reads a damaged log: it is refused, or gives an earlier state, and reports it if that is not the last.
pub(crate) fn examine(written: &Written, what: &str, count: &mut Count) {
    match read(&written.home) {
        Err(error) => {
            assert_typed(&error, what);
            count.refused += 1;
        }
        Ok((model, _)) if model == *written.last() => count.unharmed += 1,
        Ok((model, recovery)) => {
            assert!(written.states.contains(&model), "{what}: a state that never was");
            assert!(recovery.report().torn_tail.is_some(), "{what}: shorter, and it does not say so");
            count.shorter += 1;
        }
    }
}

fn assert_typed(error: &LogError, what: &str) {
    match error {
        LogError::Corrupt { .. }
        | LogError::CheckpointDamaged { .. }
        | LogError::ManifestDamaged { .. }
        | LogError::EndMissing { .. }
        | LogError::SegmentMissing { .. }
        | LogError::ForeignFile { .. } => {
            let text = error.to_string().to_lowercase();
            assert!(text.contains("restore"), "{what}: {text}");
        }
        // A name that is no file.
        LogError::Io { .. } | LogError::ManifestMissing { .. } | LogError::NoLog => {
            assert!(what.contains(" as ") || what.contains("missing"), "{what}: {error}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn flipped_bytes_are_refused_or_cut_off() {
    for close in [true, false] {
        let written = Written::new(close);
        let log = &written.home.log;
        let files = files_in(log);
        assert!(files.keys().any(|name| name.starts_with("ckpt-")), "{:?}", files.keys());
        assert!(files.keys().filter(|name| name.starts_with("seg-")).count() >= 3, "{:?}", files.keys());
        let mut count = Count::default();
        for (name, good) in files.iter().filter(|(name, _)| *name != "LOCK") {
            // Nonzero bytes, and some of the zeros between them.
            let telling = (0..good.len()).filter(|&at| good[at] != 0).step_by(5);
            for at in telling.chain((0..good.len()).step_by(97)) {
                flip(&log.join(name), good, at, 1 << (at % 8));
                examine(&written, &format!("byte {at} of {name}"), &mut count);
                flip(&log.join(name), good, at, 0);
            }
        }
        say(&format!(
            "{} flips in a log left {}: {} refused, {} cut off, {} unharmed",
            count.all(),
            if close { "closed" } else { "in use" },
            count.refused,
            count.shorter,
            count.unharmed
        ));
        assert!(count.all() > 3000, "{count:?}");
        assert!(count.refused > 1000, "{count:?}");
        // A closed log records where it ends.
        assert_eq!(count.shorter == 0, close, "{count:?}");
        assert_eq!(files_in(log), files, "reading changed something");
        let (store, _) = written.home.open().expect("mended");
        assert_holds(&store, written.last(), "mended");
    }
}

#[test]
fn cut_files_are_refused_or_cut_off() {
    for close in [true, false] {
        let written = Written::new(close);
        let log = &written.home.log;
        let files = files_in(log);
        let mut count = Count::default();
        for (name, good) in files.iter().filter(|(name, _)| *name != "LOCK") {
            for len in (0..good.len()).step_by(512) {
                cut(&log.join(name), len);
                examine(&written, &format!("{name} cut to {len} bytes"), &mut count);
                restore(&log.join(name), good);
            }
        }
        let all = count.all();
        say(&format!(
            "files of a log cut at {all} places: {} refused, {} cut off",
            count.refused, count.shorter
        ));
        assert!(all > 100, "{count:?}");
        assert_eq!(count.shorter == 0, close, "{count:?}");
        let (store, _) = written.home.open().expect("mended");
        assert_holds(&store, written.last(), "mended");
    }
}

fn cut(path: &Path, len: usize) {
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("a file");
    file.set_len(len as u64).expect("cut");
}

/// The whole store, opened from a damaged log alone.
#[test]
fn a_store_rebuilt_from_a_damaged_log_is_refused_or_a_state_that_was() {
    let written = Written::new(false);
    let files = files_in(&written.home.log);
    let mut random = fastrand::Rng::with_seed(5);
    let (mut refused, mut opened) = (0, 0);
    for round in 0..60 {
        let place = tempfile::tempdir_in(written.home.directory()).expect("a directory");
        let home = Home { log_options: written.home.log_options.clone(), ..Home::at(place.path()) };
        copy_directory(&written.home.log, &home.log);
        let names: Vec<&String> = files.keys().filter(|name| *name != "LOCK").collect();
        let name = names[random.usize(..names.len())];
        let at = random.usize(..files[name].len());
        flip(&home.log.join(name), &files[name], at, 1 << random.u8(..8));
        match home.open() {
            Err(Error::Log(error)) => {
                assert_typed(&error, &format!("round {round}: byte {at} of {name}"));
                // The image is made before the checkpoint is read; it does not count as one yet.
                restore(&home.log.join(name), &files[name]);
                let (store, report) = home.open().expect("mended");
                assert_eq!(report.origin, Origin::Rebuilt);
                assert_holds(&store, written.last(), "mended");
                refused += 1;
            }
            Err(other) => panic!("round {round}: byte {at} of {name}: {other}"),
            Ok((store, report)) => {
                let found = crate::common::content(&store);
                assert!(written.states.contains(&found), "round {round}: byte {at} of {name}");
                let torn = report.log.is_some_and(|log| log.torn_tail.is_some());
                assert!(found == *written.last() || torn, "round {round}: byte {at} of {name}");
                opened += 1;
            }
        }
    }
    say(&format!("60 rebuilds from damaged logs: {refused} refused, {opened} opened"));
    assert!(refused > 0 && opened > 0);
}

#[test]
fn a_lost_image_is_not_replaced_while_the_checkpoint_is_damaged() {
    let written = Written::new(false);
    let home = &written.home;
    // A copy of an image in use is not trusted, so the store would be rebuilt from its log.
    let bytes = std::fs::read(&home.image).expect("an image");
    let copy = home.image.with_extension("copy");
    std::fs::write(&copy, &bytes).expect("a copy");
    std::fs::rename(&copy, &home.image).expect("moved");
    let files = files_in(&home.log);
    let (name, good) = files.iter().find(|(name, _)| name.starts_with("ckpt-")).expect("a checkpoint");
    flip(&home.log.join(name), good, 5000, 0xff);
    let error = home.refuses();
    assert!(matches!(error, Error::Log(LogError::CheckpointDamaged { .. })), "{error}");
    assert_remedy(&error, &["Restore the file from a backup"]);
    assert_eq!(std::fs::read(&home.image).expect("still there"), bytes, "it may still be saved by hand");
    restore(&home.log.join(name), good);
    let (store, report) = home.open().expect("mended");
    assert_eq!(report.origin, Origin::Rebuilt);
    assert_holds(&store, written.last(), "mended");
}
