//! `warpkeep create`.

use clap::Args;
use serde::Serialize;
use warpkeep::{Geometry, KeySpec, Layout, MergeRule, Store, TableOptions, ValueSpec};

use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{StoreAt, Worked};

/// Which table, and what it is to hold.
#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    /// The name of the table.
    table: String,
    /// What keys are: u64, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC")]
    key: KeySpec,
    /// What values are: u64, f32xNUMBERS, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC")]
    value: ValueSpec,
    #[command(flatten)]
    shape: Shape,
    /// If the store is made, make it without a log: faster, but it survives the process only.
    #[arg(long)]
    without_log: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// How a new table is laid out.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// Items to make room for at once; the table grows beyond.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) capacity: Option<u64>,
    /// Levels, hash locations and slots a bucket.
    #[arg(long, default_value_t = Geometry::default(), value_name = "L-H-S")]
    pub(crate) geometry: Geometry,
    /// What a slot holds: packed or in-place; by default what suits keys and values.
    #[arg(long)]
    pub(crate) layout: Option<Layout>,
    /// What a merge does: none, replace, add-u64, max-u64, min-u64, add-f32, add-f64, or, append.
    #[arg(long, default_value = "none", value_name = "RULE")]
    pub(crate) merge: MergeRule,
}

impl Shape {
    /// What the table is created with; `items` are expected.
    pub(crate) fn options(&self, key: KeySpec, value: ValueSpec, items: Option<u64>) -> TableOptions {
        let options = TableOptions::new(key, value).geometry(self.geometry).merge(self.merge);
        let options = match self.capacity.or(items) {
            Some(items) => options.capacity(items),
            None => options,
        };
        match self.layout {
            Some(layout) => options.layout(layout),
            None => options,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    created: &'a str,
    key: KeySpec,
    value: ValueSpec,
    capacity: u64,
    geometry: String,
    merge: &'static str,
}

impl Create {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let options = self.shape.options(self.key, self.value, None);
        let create = |store: &Store| Ok(store.create_table(&self.table, options).map(drop)?);
        self.store.on(self.worked).with_new_store(self.without_log, create)?;
        let report = Report {
            created: &self.table,
            key: self.key,
            value: self.value,
            capacity: options.capacity,
            geometry: self.shape.geometry.to_string(),
            merge: self.shape.merge.name(),
        };
        self.format.show(&report, || {
            format!(
                "created table {}: {} keys, {} values, room for {} items\n",
                report.created,
                report.key,
                report.value,
                count(report.capacity)
            )
        })
    }
}
