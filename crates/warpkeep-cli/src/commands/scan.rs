//! `warpkeep scan`.

use std::io::{BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;

use clap::Args;
use serde::Serialize;
use warpkeep::{KeySpec, Store};

use crate::cell::{Coding, Shown, key_prefix, shown_key};
use crate::failure::Failure;
use crate::output::Format;
use crate::store::{Reading, StoreAt};

/// Which items.
#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    reading: Reading,
    /// The name of the table.
    table: String,
    /// Stop after this many items. They come in no particular order.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Only keys that begin so: text, hex:... or base64:...
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// How values are written.
    #[arg(long, value_enum, default_value_t)]
    format: Coding,
    /// Leave the values out.
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    pub(crate) output: Format,
}

#[derive(Debug, Serialize)]
struct Item {
    key: Shown,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Shown>,
    version: u64,
}

impl Scan {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.store.with_store_to_read(self.reading, |store| self.scan(store))
    }

    fn scan(&self, store: &Store) -> Result<(), Failure> {
        let table = store.table(&self.table)?;
        let spec = table.key_spec();
        let prefix = self.prefix.as_deref().map(|prefix| key_prefix(spec, prefix));
        let prefix = prefix.transpose().map_err(Failure::Usage)?.unwrap_or_default();
        let mut out = Printer::new(self.output.json, spec);
        let mut failed = None;
        let limit = self.limit.unwrap_or(u64::MAX);
        if limit > 0 {
            // While a table grows, items could be given out twice.
            while table.maintain()? {}
            table.scan(|item| {
                if !item.key.starts_with(&prefix) {
                    return ControlFlow::Continue(());
                }
                let printed =
                    self.value(item.value).and_then(|value| out.item(item.key, value, item.version));
                match printed {
                    Ok(()) if out.count < limit => ControlFlow::Continue(()),
                    Ok(()) => ControlFlow::Break(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
        }
        match failed {
            None => out.end(None).or_else(gone_is_fine),
            // Output begun in JSON ends in JSON.
            Some(Stop::Failed(failure)) if out.json && out.count > 0 => {
                let message = failure.message();
                out.end(Some(&message)).or_else(gone_is_fine)?;
                Err(Failure::Told(message))
            }
            Some(stop) => gone_is_fine(stop),
        }
    }

    fn value(&self, bytes: &[u8]) -> Result<Option<Shown>, Stop> {
        match self.keys_only {
            true => Ok(None),
            false => self.format.show(bytes, true).map(Some).map_err(|why| Stop::Failed(Failure::error(why))),
        }
    }
}

/// Why printing ended early.
enum Stop {
    /// The reader has seen enough and left.
    Gone,
    Failed(Failure),
}

fn gone_is_fine(stop: Stop) -> Result<(), Failure> {
    match stop {
        Stop::Gone => Ok(()),
        Stop::Failed(failure) => Err(failure),
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        match error.kind() {
            ErrorKind::BrokenPipe => Stop::Gone,
            _ => Stop::Failed(Failure::io("write to standard output")(error)),
        }
    }
}

/// Prints items as they come: there may be more than memory holds.
struct Printer {
    out: BufWriter<std::io::Stdout>,
    json: bool,
    spec: KeySpec,
    count: u64,
}

impl Printer {
    fn new(json: bool, spec: KeySpec) -> Printer {
        Printer { out: BufWriter::with_capacity(1 << 16, std::io::stdout()), json, spec, count: 0 }
    }

    fn item(&mut self, key: &[u8], value: Option<Shown>, version: u64) -> Result<(), Stop> {
        let key = shown_key(self.spec, key, true);
        match (self.json, value) {
            (true, value) => {
                let before = if self.count == 0 { "{\"items\": [\n  " } else { ",\n  " };
                let text = serde_json::to_string(&Item { key, value, version });
                let text = text.map_err(|error| Stop::Failed(Failure::error(format!("no JSON: {error}"))))?;
                write!(self.out, "{before}{text}")?;
            }
            (false, None) => writeln!(self.out, "{key}")?,
            (false, Some(value)) => writeln!(self.out, "{key}\t{value}")?,
        }
        self.count += 1;
        Ok(())
    }

    fn end(mut self, error: Option<&str>) -> Result<(), Stop> {
        if self.json {
            let before = if self.count == 0 { "{\"items\": [" } else { "\n" };
            let error =
                error.map_or_else(String::new, |error| format!(", \"error\": {}", serde_json::json!(error)));
            writeln!(self.out, "{before}], \"count\": {}{error}}}", self.count)?;
        }
        Ok(self.out.flush()?)
    }
}
