//! `warpkeep load`.

mod loader;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use warpkeep::{Durability, KeySpec, Store, ValueSpec};
use warpkeep_bench::size::Size;
use warpkeep_bench::{Amount, Progress};

use super::create::Shape;
use super::lasting::{self, Lasting};
use crate::cell::Coding;
use crate::failure::Failure;
use crate::files::{CsvSource, FileFormat, Input, JsonSource, NpySource, Record, Source};
use crate::interrupt::Interrupt;
use crate::output::{Format, count};
use crate::progress::Bars;
use crate::store::{StoreAt, Worked};
use loader::{Loaded, Loader, NOTHING, Skipped};

/// What to load where.
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
    /// What kind of file it is; by default as its name says: .csv, .jsonl, .npy.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// How values are written in CSV and JSON lines.
    #[arg(long = "as", value_enum, default_value_t, value_name = "CODING")]
    coding: Coding,
    /// The column of a CSV file that holds keys, by name or by number from 1.
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,
    /// The column that holds values.
    #[arg(long, value_name = "COLUMN")]
    value_column: Option<String>,
    /// The first line of the CSV file is data already, in columns 1 and 2 unless said otherwise.
    #[arg(long)]
    no_headers: bool,
    /// A NumPy array of integers: the keys of the rows. Without it the number of a row is its key.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Leave records out that make no sense, and count them.
    #[arg(long)]
    skip_bad: bool,
    /// Create the table, and the store if need be; keys and values as the file has them, unless said otherwise.
    #[arg(long)]
    create: bool,
    /// What keys of the new table are: u64, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC", requires = "create")]
    key: Option<KeySpec>,
    /// What values of the new table are: u64, f32xNUMBERS, fixed:BYTES, or var[:LONGEST].
    #[arg(long, value_name = "SPEC", requires = "create")]
    value: Option<ValueSpec>,
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
        let new = match self.create {
            false => None,
            true => {
                let records: Vec<&Record> = first.iter().flatten().collect();
                let (key, value) = self.specs(&*source, &records)?;
                skipped.check(&first, key, value)?;
                // What a pipe promises need not come.
                let expected = source.records().filter(|_| len.is_some());
                Some(self.shape.options(key, value, expected)?)
            }
        };

        let interrupt = Interrupt::listen()?;
        let bars = Bars::new(!self.output.json, &interrupt);
        bars.begin("loading", len.map_or(Amount::Count(1), Amount::Bytes));
        let begun = Instant::now();
        let work = |store: &Store| {
            if let Some(options) = new {
                store.create_table(&self.table, options)?;
            }
            let table = store.table(&self.table)?;
            let durability = self.lasting.of(store);
            let mut loader = Loader::new(&table, durability, &mut skipped);
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
            FileFormat::Npy => {}
            _ if self.keys.is_some() => return unfit("--keys", "NumPy arrays"),
            FileFormat::Csv => {}
            FileFormat::Jsonl if self.no_headers => return unfit("--no-headers", "CSV"),
            FileFormat::Jsonl if self.key_column.is_some() || self.value_column.is_some() => {
                return unfit("--key-column and --value-column are", "CSV");
            }
            FileFormat::Jsonl => {}
        }
        Ok(match format {
            FileFormat::Csv => {
                let default = if self.no_headers { ["1", "2"] } else { ["key", "value"] };
                let columns = [
                    self.key_column.as_deref().unwrap_or(default[0]),
                    self.value_column.as_deref().unwrap_or(default[1]),
                ];
                let name = input.name().to_owned();
                Box::new(CsvSource::new(input, &name, columns, !self.no_headers, self.coding)?)
            }
            FileFormat::Jsonl => Box::new(JsonSource::new(input, self.coding)),
            FileFormat::Npy => {
                let keys = self.keys.as_deref().map(Input::open).transpose()?;
                Box::new(NpySource::open(input, keys)?)
            }
        })
    }

    /// What the new table takes: as asked for, or else what suits the first records.
    fn specs(&self, source: &dyn Source, first: &[&Record]) -> Result<(KeySpec, ValueSpec), Failure> {
        let known = |spec: Result<ValueSpec, warpkeep_core::CoreError>| spec.map_err(warpkeep::Error::from);
        let nothing = || {
            Failure::Usage(
                "there is nothing in the file to tell keys and values by; give --key and --value".to_owned(),
            )
        };
        let key = match self.key {
            Some(key) => key,
            None if source.value_bytes().is_some() => KeySpec::U64,
            None if first.is_empty() => return Err(nothing()),
            None if first.iter().all(|record| record.key.is_number()) => KeySpec::U64,
            None => KeySpec::variable(KeySpec::DEFAULT_VARIABLE).map_err(warpkeep::Error::from)?,
        };
        let one_length = first.first().map(|record| record.value.len()).filter(|len| {
            matches!(self.coding, Coding::F32 | Coding::U64)
                && first.iter().all(|record| record.value.len() == *len)
        });
        let fixed = source.value_bytes().or(one_length.map(|len| len as u64));
        let value = match (self.value, fixed) {
            (Some(value), _) => value,
            (None, Some(len)) => known(ValueSpec::fixed(u32::try_from(len).unwrap_or(u32::MAX)))?,
            (None, None) if first.is_empty() => return Err(nothing()),
            (None, None) => known(ValueSpec::variable(ValueSpec::MAX))?,
        };
        Ok((key, value))
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
