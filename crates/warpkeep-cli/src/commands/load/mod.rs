//! `warpkeep load`.

mod loader;
mod plan;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use warpkeep::{Durability, KeySpec, Store};
use warpkeep_bench::size::Size;
use warpkeep_bench::{Amount, Progress};

use super::create::{Shape, ValueType};
use super::lasting::{self, Lasting};
use crate::cell::Coding;
use crate::elements::Dtype;
use crate::failure::Failure;
use crate::files::{CsvColumns, CsvSource, FileFormat, Input, JsonSource, JsonValues, NpySource, Source};
use crate::interrupt::Interrupt;
use crate::output::{Format, count};
use crate::progress::Bars;
use crate::store::{StoreAt, Worked};
use loader::{Loaded, Loader, NOTHING, Skipped};
use plan::Plan;

/// The file, and the table.
#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    /// The name of the table.
    table: String,
    /// The file; - is standard input.
    file: PathBuf,
    /// The format of the file; by default from its name: .csv, .jsonl, .npy.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// How values are written in CSV and JSON lines; default: text.
    #[arg(long = "as", value_enum, value_name = "CODING", conflicts_with = "dtype")]
    coding: Option<Coding>,
    /// CSV: all columns but the key are a row of numbers of this type; JSON lines: values are arrays of such numbers. f32, f16, f64, i8 to
    /// i64, u8 to u64, bool, complex64 and so on. CSV files with no column called value are rows of f32 without it.
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// Convert the elements of an array that have another type than the table's. A change beyond rounding is an
    /// error.
    #[arg(long)]
    convert: bool,
    /// The column of a CSV file that holds keys, by name or by number from 1.
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,
    /// The column that holds values.
    #[arg(long, value_name = "COLUMN")]
    value_column: Option<String>,
    /// The first line of the CSV file is data, in columns 1 and 2 by default.
    #[arg(long)]
    no_headers: bool,
    /// A NumPy array of integers: the keys of the rows. Without it the number of a row is its key.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Leave records out that make no sense, and count them.
    #[arg(long)]
    skip_bad: bool,
    /// Create the table, and the store if necessary; by default with the keys and values of the file.
    #[arg(long)]
    create: bool,
    /// The keys of the new table: u64, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC", requires = "create")]
    key: Option<KeySpec>,
    /// The values of the new table: u64, f32xNUMBERS, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC", requires = "create")]
    value: Option<ValueType>,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    pub(crate) output: Format,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    table: &'a str,
    created_table: bool,
    #[serde(flatten)]
    loaded: Loaded,
    #[serde(flatten)]
    skipped: Skipped,
    value_bytes: u64,
    durability: Durability,
    seconds: f64,
    items_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Load {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let input = Input::open(&self.file)?;
        let (name, len, progress) = (input.name().to_owned(), input.len(), input.progress());
        let mut source = self.source(input)?;
        let mut skipped = Skipped::new(&name, source.unit(), self.skip_bad);
        // The first of it is read before a store is touched: it may be no such file at all.
        let first = loader::read_some(&mut *source, &skipped, NOTHING)?;
        let plan = Plan::new(self, &*source, &first, &mut skipped, len.is_some())?;

        let interrupt = Interrupt::listen()?;
        let bars = Bars::new(!self.output.json, &interrupt);
        bars.begin("loading", len.map_or(Amount::Count(1), Amount::Bytes));
        let begun = Instant::now();
        let work = |store: &Store| {
            let table = plan.table(store, &self.table)?;
            let durability = self.lasting.of(store);
            let form = plan.form(&table, &name, self.convert)?;
            skipped.check(&first, table.key_spec(), table.value_spec(), &form)?;
            plan.remember(&table)?;
            let mut loader = Loader::new(&table, durability, form, &mut skipped);
            let (mut entries, mut shown) = (first, 0);
            while !entries.is_empty() {
                interrupt.check_or(&loader.standing())?;
                loader.load(entries)?;
                let read = progress.load(Ordering::Relaxed);
                bars.advance(if len.is_some() { read - shown } else { 0 });
                shown = read;
                entries = loader.read_some(&mut *source)?;
            }
            Ok((loader.loaded, durability))
        };
        let (loaded, durability) = match self.create {
            true => self.store.on(self.worked).with_new_store(false, work)?,
            false => self.store.on(self.worked).with_store(work)?,
        };
        bars.finish();
        let seconds = begun.elapsed().as_secs_f64();
        let items_per_second = loaded.loaded as f64 / seconds.max(1e-9);
        let value_bytes = loaded.value_bytes;
        let report = Report {
            table: &self.table,
            created_table: self.create,
            loaded,
            skipped,
            value_bytes,
            durability,
            seconds,
            items_per_second,
            note: self.create.then(|| self.shape.note(self.worked.device)).flatten(),
        };
        self.output.show(&report, || report.text())
    }

    fn source(&self, input: Input) -> Result<Box<dyn Source>, Failure> {
        let format = FileFormat::of(self.format, &self.file)?;
        let unfit = |option: &str, kind: &str| Err(Failure::Usage(format!("{option} is for {kind} only")));
        match format {
            FileFormat::Npy if self.dtype.is_some() => return unfit("--dtype", "CSV and JSON lines"),
            FileFormat::Npy => {}
            _ if self.keys.is_some() => return unfit("--keys", "NumPy arrays"),
            _ if self.convert => return unfit("--convert", "NumPy arrays"),
            FileFormat::Csv => {}
            FileFormat::Jsonl if self.no_headers => return unfit("--no-headers", "CSV"),
            FileFormat::Jsonl if self.key_column.is_some() || self.value_column.is_some() => {
                return unfit("--key-column and --value-column are", "CSV");
            }
            FileFormat::Jsonl => {}
        }
        let name = input.name().to_owned();
        Ok(match format {
            FileFormat::Csv => {
                let columns = CsvColumns {
                    key: self.key_column.clone(),
                    value: self.value_column.clone(),
                    headers: !self.no_headers,
                    rows: self.dtype.is_some(),
                };
                Box::new(CsvSource::new(input, &name, &columns, self.coding.unwrap_or_default())?)
            }
            FileFormat::Jsonl => {
                let values = match (self.coding, &self.dtype) {
                    (Some(coding), _) => JsonValues::Coded(coding),
                    (None, Some(_)) => JsonValues::Row,
                    (None, None) => JsonValues::TextOrRow,
                };
                Box::new(JsonSource::new(input, &name, values))
            }
            FileFormat::Npy => {
                let keys = self.keys.as_deref().map(Input::open).transpose()?;
                Box::new(NpySource::open(input, keys)?)
            }
        })
    }
}

impl Report<'_> {
    fn text(&self) -> String {
        let mut text = format!(
            "loaded {} items ({} of values) into table {} in {:.2} s: {} items/s; {} of them were new{}\n",
            count(self.loaded.loaded),
            Size(self.value_bytes),
            self.table,
            self.seconds,
            count(self.items_per_second as u64),
            count(self.loaded.new),
            lasting::note(self.durability)
        );
        self.note.iter().for_each(|note| text += &format!("note: {note}\n"));
        if self.skipped.skipped > 0 {
            text += &format!("left out {} that made no sense:\n", count(self.skipped.skipped));
            for example in &self.skipped.examples {
                text += &format!("  {example}\n");
            }
        }
        text
    }
}
