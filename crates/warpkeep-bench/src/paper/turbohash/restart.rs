//! The time of reopening a store whose process has died.

use warpkeep::{Durability, IndexKind, KeySpec, Origin, Store, StoreOptions, TableOptions, ValueSpec};
use warpkeep_image::CreateOptions;

use super::Options;
use super::items::Size;
use crate::compare::image_bytes_of;
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{Amount, BenchError, Progress};

const TABLE: &str = "items";
const BATCH: u64 = 4096;

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    for size in Size::ALL {
        let case = format!("restart: {} {}", options.items, size.name());
        for index in IndexKind::ALL {
            for repeat in 0..options.repeats {
                let seconds = come_back(options, size, index, progress)?;
                report.add(&case, index.name(), repeat, "re-attach", Unit::Seconds, seconds);
            }
        }
    }
    report.notes.push(
        "restart: the paper reads the directory and nothing else, for it counts no items and gives back no space that a crash left \
         unused (section 3.7); ours reads the directory, marks the records so that none leaks, and counts the items"
            .to_owned(),
    );
    Ok(())
}

/// Fills a store, leaves it as if it had been killed, and opens it again; returns how long that took.
fn come_back(
    options: &Options,
    size: Size,
    index: IndexKind,
    progress: &dyn Progress,
) -> Result<f64, BenchError> {
    let cell = size.cell() as u32;
    let workload = Workload {
        items: options.items,
        key_bytes: size.cell(),
        value_bytes: size.cell(),
        seed: options.seed,
    };
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let open = || {
        let create = CreateOptions { len: image_bytes_of(index, &workload), ..CreateOptions::default() };
        let image = Some(scratch.images().join("image"));
        let options = StoreOptions { image, create, without_log: true, ..StoreOptions::default() };
        Store::open_with(scratch.disk().join("store"), options)
    };
    let store = open()?;
    let key = if cell == 8 { Ok(KeySpec::U64) } else { KeySpec::fixed(cell) };
    let key = key.map_err(warpkeep::Error::from)?;
    let value = ValueSpec::fixed(cell).map_err(warpkeep::Error::from)?;
    let table = TableOptions::new(key, value).capacity(workload.items).index(index);
    let table = store.create_table(TABLE, table)?;
    progress.begin(
        &format!("restart: filling a {index} table of {}", size.name()),
        Amount::Count(workload.items),
    );
    let (mut key, mut value) = (vec![0; size.cell()], vec![0; size.cell()]);
    for first in (0..workload.items).step_by(BATCH as usize) {
        progress.check()?;
        let mut batch = table.batch();
        for number in first..(first + BATCH).min(workload.items) {
            workload.write_key(number, &mut key);
            workload.write_value(number, 0, &mut value);
            batch.put(&key[..], &value[..]).map_err(warpkeep::Error::from)?;
        }
        if let Some((_, status)) = table.run(&batch, Durability::Process)?.first_error() {
            return Err(BenchError::Invalid(format!("the store answered '{status}'; {}", status.remedy())));
        }
        progress.advance(BATCH);
    }
    progress.finish();
    drop(table);
    drop(store);
    let store = open()?;
    let (found, came) = (store.table(TABLE)?.len(), store.report().origin);
    if found != workload.items || came != Origin::Reattached {
        return Err(BenchError::Wrong(format!("{found} of {} items came back, {came:?}", workload.items)));
    }
    Ok(store.report().seconds)
}
