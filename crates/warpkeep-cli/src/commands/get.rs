//! `warpkeep get`.

use clap::Args;
use serde::Serialize;
use warpkeep::{Durability, Store};

use crate::cell::{Coding, Shown, key_from_text, shown_key};
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::store::{Reading, StoreAt, Worked};

/// Which keys.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    #[command(flatten)]
    reading: Reading,
    /// The name of the table.
    table: String,
    /// The keys: integers such as 42 or 0x2a for u64 keys; otherwise text, hex:... or base64:...
    #[arg(required = true)]
    keys: Vec<String>,
    /// How values are written.
    #[arg(long, value_enum, default_value_t)]
    format: Coding,
    /// Write the bytes of the one value unchanged, and nothing else.
    #[arg(long, conflicts_with_all = ["json", "format"])]
    raw: bool,
    #[command(flatten)]
    pub(crate) output: Format,
}

#[derive(Debug, Serialize)]
struct Item {
    key: Shown,
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Report {
    items: Vec<Item>,
    missing: usize,
}

impl Get {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.raw {
            return self.run_raw();
        }
        let report =
            self.store.on(self.worked).with_store_to_read(self.reading, |store| self.look_up(store))?;
        self.output.show(&report, || match &report.items[..] {
            [Item { value: Some(value), .. }] => format!("{value}\n"),
            items => items
                .iter()
                .filter_map(|item| Some(format!("{}\t{}\n", item.key, item.value.as_ref()?)))
                .collect(),
        })?;
        let missing: Vec<String> =
            report.items.iter().filter(|item| !item.found).map(|item| item.key.to_string()).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.not_there(&missing.join(", "), true)),
        }
    }

    fn not_there(&self, keys: &str, told: bool) -> Failure {
        let message = format!("not in table {}: {keys}; `warpkeep scan` shows what is", self.table);
        Failure::Missing { message, told }
    }

    fn run_raw(&self) -> Result<(), Failure> {
        let [key] = &self.keys[..] else {
            return Err(Failure::Usage("--raw writes one value; give one key".to_owned()));
        };
        let value = self.store.on(self.worked).with_store_to_read(self.reading, |store| {
            let table = store.table(&self.table)?;
            let bytes = key_from_text(table.batch().key_spec(), key).map_err(Failure::Usage)?;
            Ok(table.get(&bytes)?)
        })?;
        output::print_bytes(&value.ok_or_else(|| self.not_there(key, false))?)
    }

    fn look_up(&self, store: &Store) -> Result<Report, Failure> {
        let table = store.table(&self.table)?;
        let mut batch = table.batch();
        let spec = batch.key_spec();
        let mut keys = Vec::new();
        for key in &self.keys {
            let key = key_from_text(spec, key).map_err(Failure::Usage)?;
            batch.get(&key).map_err(warpkeep::Error::from)?;
            keys.push(key);
        }
        let results = table.run(&batch, Durability::Process)?;
        super::check_statuses(&results)?;
        let mut items = Vec::new();
        for (key, outcome) in keys.iter().zip(results.iter()) {
            let value = outcome.value.filter(|_| outcome.status.is_ok());
            let shown = value.map(|value| self.format.show(value, true)).transpose();
            items.push(Item {
                key: shown_key(spec, key, true),
                found: value.is_some(),
                value: shown.map_err(Failure::error)?,
                version: value.map(|_| outcome.version),
            });
        }
        let missing = items.iter().filter(|item| !item.found).count();
        Ok(Report { items, missing })
    }
}
