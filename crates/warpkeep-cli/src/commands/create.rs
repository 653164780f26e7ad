//! `warpkeep create`.

use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use warpkeep::{
    DeviceChoice, Geometry, IndexKind, KeySpec, Layout, MergeRule, Store, TableOptions, TableStats, ValueSpec,
};

use crate::elements::{Dtype, Elements, remember};
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
    value: ValueType,
    #[command(flatten)]
    shape: Shape,
    /// If the store is made, make it without a log: faster, but it survives the process only.
    #[arg(long)]
    without_log: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// What values are, with what they are rows of if that is said.
#[derive(Clone, Debug)]
pub(crate) struct ValueType {
    pub(crate) spec: ValueSpec,
    pub(crate) elements: Option<Elements>,
}

impl FromStr for ValueType {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueType, String> {
        let spec = text.parse::<ValueSpec>().map_err(|error| error.to_string())?;
        let floats = || text.strip_prefix("f32x")?.parse().ok();
        let elements = match text {
            "u64" => Some(Elements { dtype: Dtype::u64(), shape: Vec::new(), fortran: false }),
            _ => floats().map(|count| Elements::row(Dtype::f32(), count)),
        };
        Ok(ValueType { spec, elements })
    }
}

/// How a new table is laid out.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// Items to make room for at once; the table grows beyond.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) capacity: Option<u64>,
    /// The index: gphash, for GPUs and the CPU, or turbohash, for the CPU only.
    #[arg(long, default_value_t, value_name = "INDEX")]
    pub(crate) index: IndexKind,
    /// Of a gphash table: levels, hash locations and slots a bucket. 2L-2H-8S if not said.
    #[arg(long, value_name = "L-H-S")]
    pub(crate) geometry: Option<Geometry>,
    /// Of a gphash table: what a slot holds, packed or in-place; by default what suits keys and values.
    #[arg(long)]
    pub(crate) layout: Option<Layout>,
    /// Of a turbohash table: how many shards it has, for good; by default as many as suit the capacity.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shards: Option<u32>,
    /// What a merge does: none, replace, add-u64, max-u64, min-u64, add-f32, add-f64, or, append.
    #[arg(long, default_value = "none", value_name = "RULE")]
    pub(crate) merge: MergeRule,
    /// Check every value against its checksum when it is looked up; such a table is worked by the CPU.
    #[arg(long)]
    pub(crate) check_gets: bool,
}

impl Shape {
    /// What the table is created with; `items` are expected.
    pub(crate) fn options(
        &self,
        key: KeySpec,
        value: ValueSpec,
        items: Option<u64>,
    ) -> Result<TableOptions, Failure> {
        if self.index != IndexKind::GpHash && self.geometry.is_some() {
            return Err(Failure::Usage(format!("--geometry is for gphash tables; {} has none", self.index)));
        }
        let mut options = TableOptions::new(key, value).index(self.index).merge(self.merge);
        options.capacity = self.capacity.or(items).unwrap_or(options.capacity);
        options.geometry = self.geometry.unwrap_or_default();
        options.layout = self.layout;
        options.shards = self.shards.unwrap_or(0);
        options.check_gets = self.check_gets;
        Ok(options)
    }

    /// What whoever asked for a device should know about the table.
    pub(crate) fn note(&self, device: DeviceChoice) -> Option<String> {
        let idle = self.index == IndexKind::TurboHash && device != DeviceChoice::Cpu;
        idle.then(|| format!("turbohash tables are worked by the CPU; {device} works gphash tables only"))
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    created: &'a str,
    key: KeySpec,
    value: ValueSpec,
    capacity: u64,
    index: IndexKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    geometry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    merge: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Create {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let options = self.shape.options(self.key, self.value.spec, None)?;
        let create = |store: &Store| {
            let table = store.create_table(&self.table, options)?;
            if let Some(elements) = &self.value.elements {
                remember(&table, elements)?;
            }
            let shards = match table.stats() {
                TableStats::TurboHash(stats) => Some(stats.shards),
                TableStats::GpHash(_) => None,
            };
            Ok((table.geometry().map(|geometry| geometry.to_string()), shards))
        };
        let (geometry, shards) = self.store.on(self.worked).with_new_store(self.without_log, create)?;
        let report = Report {
            created: &self.table,
            key: self.key,
            value: self.value.spec,
            capacity: options.capacity,
            index: options.index,
            geometry,
            shards,
            merge: self.shape.merge.name(),
            note: self.shape.note(self.worked.device),
        };
        self.format.show(&report, || {
            let mut text = format!(
                "created table {}: {} keys, {} values, room for {} items",
                report.created,
                report.key,
                report.value,
                count(report.capacity)
            );
            if let Some(shards) = report.shards {
                text += &format!(", {} in {} shards", report.index, count(shards));
            }
            text.push('\n');
            report.note.iter().for_each(|note| text += &format!("note: {note}\n"));
            text
        })
    }
}
