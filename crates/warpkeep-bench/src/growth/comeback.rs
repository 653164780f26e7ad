//! Reopening a store: after its process died, and after its image was lost.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use warpkeep::engine::{Items, Tables};
use warpkeep::{Durability, KeySpec, Origin, Store, StoreOptions, TableOptions, ValueSpec};
use warpkeep_core::{BatchView, Cells, Columns, Op, Results};
use warpkeep_image::{Access, Coherent, CreateOptions, Heap, HeapOptions, Image, Marker, OpenOptions};

use super::case_name;
use crate::compare::warpkeep_image_bytes;
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{Amount, BenchError, Progress};

const TABLE: &str = "rows";
const BATCH: u64 = 4096;
const SAMPLES: usize = 5000;

pub(super) fn run(
    workload: &Workload,
    scratch: &Scratch,
    repeats: u32,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let case = case_name(workload.items);
    let place = Place { directory: scratch.disk().join("store"), image: scratch.images().join("image") };
    fill(workload, &place, progress)?;
    for repeat in 0..repeats {
        progress.check()?;
        progress.begin(&format!("{case}: re-attach"), Amount::Count(1));
        let store = come_back(workload, &place, Origin::Reattached)?;
        let total = store.report().seconds;
        drop(store);
        let (mark, attach) = steps(&place)?;
        progress.finish();
        report.add(&case, "re-attach", repeat, "total", Unit::Seconds, total);
        report.add(&case, "re-attach", repeat, "mark", Unit::Seconds, mark);
        report.add(&case, "re-attach", repeat, "attach", Unit::Seconds, attach);
        report.add(
            &case,
            "re-attach",
            repeat,
            "items a second",
            Unit::PerSecond,
            workload.items as f64 / total,
        );
    }
    for repeat in 0..repeats {
        progress.check()?;
        progress.begin(&format!("{case}: rebuild"), Amount::Count(1));
        std::fs::remove_file(&place.image).map_err(BenchError::io("remove the image"))?;
        let store = come_back(workload, &place, Origin::Rebuilt)?;
        let total = store.report().seconds;
        progress.finish();
        report.add(&case, "rebuild", repeat, "total", Unit::Seconds, total);
        report.add(
            &case,
            "rebuild",
            repeat,
            "items a second",
            Unit::PerSecond,
            workload.items as f64 / total,
        );
    }
    Ok(())
}

struct Place {
    directory: PathBuf,
    image: PathBuf,
}

impl Place {
    fn open(&self, workload: &Workload) -> Result<Store, BenchError> {
        let create = CreateOptions { len: warpkeep_image_bytes(workload), ..CreateOptions::default() };
        let options = StoreOptions {
            image: Some(self.image.clone()),
            create,
            // It is removed to see it rebuilt.
            abandon_image: true,
            ..StoreOptions::default()
        };
        Ok(Store::open_with(&self.directory, options)?)
    }
}

/// A store with all items and a checkpoint of them, left as if it had been killed.
fn fill(workload: &Workload, place: &Place, progress: &dyn Progress) -> Result<(), BenchError> {
    let store = place.open(workload)?;
    let value = ValueSpec::fixed(workload.value_bytes as u32).map_err(warpkeep::Error::from)?;
    let table = store.create_table(TABLE, TableOptions::new(KeySpec::U64, value).capacity(workload.items))?;
    progress.begin(&format!("{}: filling a store", case_name(workload.items)), Amount::Count(workload.items));
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut results = Results::default();
    for first in (0..workload.items).step_by(BATCH as usize) {
        progress.check()?;
        keys.clear();
        values.clear();
        for number in first..(first + BATCH).min(workload.items) {
            workload.append_key(number, &mut keys);
            workload.append_value(number, 0, &mut values);
        }
        let cells = Cells::fixed(workload.value_bytes, &values);
        let columns = Columns::with_values(Op::Put, Cells::fixed(workload.key_bytes, &keys), cells);
        let view = BatchView::new(KeySpec::U64, value, columns).map_err(warpkeep::Error::from)?;
        results.prepare(&view);
        table.run_into(&view, Durability::Process, &mut results)?;
        if let Some((_, status)) = results.first_error() {
            return Err(BenchError::Invalid(format!("the store answered '{status}'; {}", status.remedy())));
        }
        progress.advance(results.len() as u64);
    }
    store.checkpoint()?;
    progress.finish();
    Ok(())
}

fn come_back(workload: &Workload, place: &Place, origin: Origin) -> Result<Store, BenchError> {
    let store = place.open(workload)?;
    if store.report().origin != origin {
        let found = store.report().origin;
        return Err(BenchError::Wrong(format!("expected {origin:?}, but it was {found:?}")));
    }
    let table = store.table(TABLE)?;
    if table.len() != workload.items {
        return Err(BenchError::Wrong(format!("{} of {} items came back", table.len(), workload.items)));
    }
    for number in workload.draws(11).take(SAMPLES) {
        let value = table.get(workload.key_word(number))?;
        if !value.is_some_and(|value| workload.is_exactly(number, 0, &value)) {
            return Err(BenchError::Wrong(format!("item {number} did not come back")));
        }
    }
    drop(table);
    Ok(store)
}

/// The seconds that marking and attaching take by themselves.
fn steps(place: &Place) -> Result<(f64, f64), BenchError> {
    let opened = Image::open(&place.image, Coherent, Access::ReadWrite, &OpenOptions::default())?;
    let image = Arc::new(opened.image);
    let begun = Instant::now();
    let mark = |marker: &Marker<'_, Coherent>| <Tables<Coherent> as Items<Coherent>>::mark(&image, marker);
    let heap = Arc::new(Heap::recover(&image, HeapOptions::default(), mark)?);
    let marked = Instant::now();
    let tables = <Tables<Coherent> as Items<Coherent>>::attach(&heap)?;
    let attached = Instant::now();
    drop(tables);
    Ok(((marked - begun).as_secs_f64(), (attached - marked).as_secs_f64()))
}
