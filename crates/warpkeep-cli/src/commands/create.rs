//! `warpkeep create`.

use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use warpkeep::{
    DeviceChoice, Geometry, IndexKind, IndexOptions, KeySpec, Layout, MergeRule, Store, TableOptions,
    TableStats, ValueSpec,
};

use crate::elements::{Dtype, Elements, remember};
use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{StoreAt, Worked};

/// The table, and its contents.
#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    /// The name of the table.
    table: String,
    /// The keys: u64, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC")]
    key: KeySpec,
    /// The values: u64, f32xNUMBERS, fixed:BYTES, or var[:LONGEST].
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

/// The value spec, with the type of its elements if given.
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
    /// Of a gphash table: levels, hash locations and slots a bucket. Default: 2L-2H-8S.
    #[arg(long, value_name = "L-H-S")]
    pub(crate) geometry: Option<Geometry>,
    /// Of a gphash table: the contents of a slot, packed or in-place; by default the one that suits keys and
    /// values.
    #[arg(long)]
    pub(crate) layout: Option<Layout>,
    /// Of a turbohash table: the number of shards, which never changes; by default as many as suit the capacity.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shards: Option<u32>,
    /// The merge rule: none, replace, add-u64, max-u64, min-u64, add-f32, add-f64, or, append.
    #[arg(long, default_value = "none", value_name = "RULE")]
    pub(crate) merge: MergeRule,
    /// Check every value against its checksum when it is looked up; such a table runs on the CPU.
    #[arg(long)]
    pub(crate) check_gets: bool,
}

impl Shape {
    /// The options of the new table; `items` are expected.
    pub(crate) fn options(
        &self,
        key: KeySpec,
        value: ValueSpec,
        items: Option<u64>,
    ) -> Result<TableOptions, Failure> {
        let mut options = TableOptions::new(key, value).index(self.index()?).merge(self.merge);
        options.capacity = self.capacity.or(items).unwrap_or(options.capacity);
        options.check_gets = self.check_gets;
        Ok(options)
    }

    /// The index, and what is chosen about it. An option of another index is an error: its caller expects something of it.
    fn index(&self) -> Result<IndexOptions, Failure> {
        let misplaced = |option: &str, of: IndexKind| {
            Err(Failure::Usage(format!(
                "{option} is for {of} tables; leave it out for a {} table",
                self.index
            )))
        };
        match self.index {
            IndexKind::GpHash if self.shards.is_some() => misplaced("--shards", IndexKind::TurboHash),
            IndexKind::GpHash => {
                Ok(IndexOptions::GpHash { geometry: self.geometry.unwrap_or_default(), layout: self.layout })
            }
            IndexKind::TurboHash if self.geometry.is_some() => misplaced("--geometry", IndexKind::GpHash),
            IndexKind::TurboHash if self.layout.is_some() => misplaced("--layout", IndexKind::GpHash),
            IndexKind::TurboHash => Ok(IndexOptions::TurboHash { shards: self.shards.unwrap_or(0) }),
        }
    }

    /// A note about the table for a user who requested a device.
    pub(crate) fn note(&self, device: DeviceChoice) -> Option<String> {
        let idle = self.index == IndexKind::TurboHash && device != DeviceChoice::Cpu;
        idle.then(|| format!("TurboHash tables run on the CPU; {device} runs GPHash tables only"))
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
            let shards = match table.stats()? {
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
            index: options.index.kind(),
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
