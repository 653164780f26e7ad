//! `warpkeep dump`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use warpkeep::{KeySpec, Store, Table};
use warpkeep_bench::{Amount, Progress};

use crate::cell::Coding;
use crate::elements::{COLUMNS, Dtype, Elements, elements_of};
use crate::failure::Failure;
use crate::files::{CsvForm, CsvSink, FileFormat, JsonForm, JsonSink, NpySink, OutputFile, Sink};
use crate::interrupt::Interrupt;
use crate::output::{Format, counted};
use crate::progress::Bars;
use crate::store::{Reading, StoreAt};

/// The table, and the file.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    reading: Reading,
    /// The name of the table.
    table: String,
    /// The file; - is standard output.
    file: PathBuf,
    /// The format of the file; by default from its name: .csv, .jsonl, .npy.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// How values are written in CSV and JSON lines; by default as rows of numbers if the table records that, else
    /// as text.
    #[arg(long = "as", value_enum, value_name = "CODING")]
    coding: Option<Coding>,
    /// The type of elements of a NumPy array: f32, f16, i8, bool, complex64, <f8 and so on. The default is the type
    /// that the table records; else f32 if that divides a value, otherwise u8.
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// Convert the elements of a table that have another type than --dtype. A change beyond rounding is an error.
    #[arg(long, requires = "dtype")]
    convert: bool,
    /// Write a NumPy array row by row, even if it was loaded from one stored column by column.
    #[arg(long)]
    c_order: bool,
    /// Write the keys of a NumPy array's rows to this array; without it the keys must be the numbers of the rows.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Leave damaged items out, and list them on standard error, instead of stopping at the first.
    #[arg(long)]
    skip_damaged: bool,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) output: Format,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    table: &'a str,
    file: &'a Path,
    dumped: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Dump {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let on_stdout = self.file == Path::new("-");
        if on_stdout && self.output.json {
            return Err(Failure::Usage("the items go to standard output; leave --json out".to_owned()));
        }
        let format = FileFormat::of(self.format, &self.file)?;
        if format != FileFormat::Npy && (self.dtype.is_some() || self.keys.is_some() || self.c_order) {
            return Err(Failure::Usage("--dtype, --keys and --c-order are for NumPy arrays only".to_owned()));
        }
        let interrupt = Interrupt::listen()?;
        let begun = Instant::now();
        let (dumped, note) =
            self.store.with_store_to_read(self.reading, |store| self.dump(store, format, &interrupt))?;
        let seconds = begun.elapsed().as_secs_f64();
        let report = Report { table: &self.table, file: &self.file, dumped, seconds, note };
        let line = || {
            let note = report.note.as_ref().map_or_else(String::new, |note| format!("note: {note}\n"));
            format!(
                "dumped {} of table {} to {} in {:.2} s\n{note}",
                counted(report.dumped, "item"),
                report.table,
                report.file.display(),
                report.seconds
            )
        };
        if on_stdout {
            eprint!("warpkeep: {}", line());
            return Ok(());
        }
        self.output.show(&report, line)
    }

    fn dump(
        &self,
        store: &Store,
        format: FileFormat,
        interrupt: &Interrupt,
    ) -> Result<(u64, Option<String>), Failure> {
        let table = store.table(&self.table)?;
        // While a table grows, items could be given out twice.
        while table.maintain()? {
            interrupt.check()?;
        }
        let items = match self.skip_damaged {
            true => count_good(&table)?,
            false => table.len(),
        };
        let (mut sink, note) = self.sink(&table, format, items)?;
        let bars = Bars::new(!self.output.json, interrupt);
        bars.begin("dumping", Amount::Count(items));
        let (mut dumped, mut failed) = (0, None);
        let mut damaged = None;
        table.scan_checked(|item| {
            let item = match item {
                Ok(item) => item,
                Err(item) if self.skip_damaged => {
                    eprintln!("warpkeep: left out: {item}");
                    return ControlFlow::Continue(());
                }
                Err(item) => {
                    damaged = Some(item.clone());
                    return ControlFlow::Break(());
                }
            };
            let put = sink.put(item.key, item.value).and_then(|()| interrupt.check());
            bars.advance(1);
            dumped += 1;
            match put {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            }
        })?;
        bars.finish();
        if let Some(item) = damaged {
            return Err(Failure::Damage(format!(
                "table {}: {item}; `warpkeep repair {}` puts items right from checkpoint and log, and --skip-damaged \
                 leaves them out",
                self.table,
                self.store.named()
            )));
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        if dumped != items {
            return Err(Failure::error(format!(
                "{dumped} items were found where there are {items}: the table was being rearranged; dump it again"
            )));
        }
        sink.finish()?;
        Ok((dumped, note))
    }

    /// The output, and notes for the user.
    fn sink(
        &self,
        table: &Table,
        format: FileFormat,
        items: u64,
    ) -> Result<(Box<dyn Sink>, Option<String>), Failure> {
        let (key_spec, value_spec) = (table.key_spec(), table.value_spec());
        if format == FileFormat::Npy && key_spec != KeySpec::U64 {
            return Err(Failure::Usage(format!(
                "the table has {key_spec} keys, and a NumPy array has only numbers; dump it as CSV or JSON lines"
            )));
        }
        let create = |path: &Path| OutputFile::create(path, self.force);
        // Elements without a text, such as bytes, are written as values are.
        let rows = elements_of(table).filter(|elements| self.coding.is_none() && elements.dtype.is_number());
        let coding = self.coding.unwrap_or_default();
        Ok(match format {
            FileFormat::Csv => {
                let form = match rows {
                    Some(elements) => CsvForm::Rows(elements, table.attribute(COLUMNS)),
                    None => CsvForm::Value(coding),
                };
                (Box::new(CsvSink::new(create(&self.file)?, key_spec, form)?), None)
            }
            FileFormat::Jsonl => {
                let form = rows.map_or(JsonForm::Coded(coding), JsonForm::Rows);
                (Box::new(JsonSink::new(create(&self.file)?, key_spec, form)), None)
            }
            FileFormat::Npy => {
                let Some(row_bytes) = value_spec.fixed_len() else {
                    return Err(Failure::Usage(format!(
                        "the table has {value_spec} values, and rows of a NumPy array have one length; dump it as CSV \
                         or JSON lines"
                    )));
                };
                let (elements, convert, note) = self.elements(table, row_bytes as u64)?;
                let keys = self.keys.as_deref().map(create).transpose()?;
                (Box::new(NpySink::new(create(&self.file)?, keys, elements, convert, items)?), note)
            }
        })
    }

    /// The elements of an array; those it is converted from, if any; and notes for the user.
    fn elements(
        &self,
        table: &Table,
        row_bytes: u64,
    ) -> Result<(Elements, Option<Elements>, Option<String>), Failure> {
        let Some(known) = elements_of(table) else {
            let dtype = self.dtype.clone().unwrap_or_else(|| Dtype::guess(row_bytes));
            if !row_bytes.is_multiple_of(dtype.bytes()) {
                return Err(Failure::Usage(format!(
                    "values of {row_bytes} bytes are no rows of {dtype}; give another --dtype, such as u8"
                )));
            }
            let guessed = || {
                format!(
                    "the table does not say what its values are; they were written as {dtype}, or give --dtype"
                )
            };
            let note = self.dtype.is_none().then(guessed);
            let columns = row_bytes / dtype.bytes();
            return Ok((Elements::row(dtype, columns), None, note));
        };
        let mut elements = Elements { fortran: known.fortran && !self.c_order, ..known.clone() };
        let Some(dtype) = self.dtype.clone() else { return Ok((elements, None, None)) };
        elements.dtype = dtype;
        match (elements.dtype.same_numbers(&known.dtype), self.convert) {
            (true, _) => Ok((elements, None, None)),
            (false, true) if known.can_become(&elements) => Ok((elements, Some(known), None)),
            (false, true) => Err(Failure::Usage(format!(
                "rows of {known} cannot become rows of {elements}; leave --dtype out"
            ))),
            (false, false) => Err(Failure::Usage(format!(
                "the values of table {} are rows of {known}; give --convert to have them converted, or leave --dtype out",
                table.name()
            ))),
        }
    }
}

/// Items of a table that are not damaged.
fn count_good(table: &Table) -> Result<u64, Failure> {
    let mut good = 0;
    table.scan_checked(|item| {
        good += u64::from(item.is_ok());
        ControlFlow::Continue(())
    })?;
    Ok(good)
}
