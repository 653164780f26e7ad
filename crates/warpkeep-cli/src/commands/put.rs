//! `warpkeep put`.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use warpkeep::{Durability, Status, ValueSpec};

use super::lasting::{self, Lasting};
use crate::cell::{Coding, Shown, key_from_text, shown_key};
use crate::failure::Failure;
use crate::output::Format;
use crate::store::{StoreAt, Worked};

/// The key, and its value.
#[derive(Debug, Args)]
pub(crate) struct Put {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    /// The name of the table.
    table: String,
    /// The key: an integer such as 42 or 0x2a for u64 keys; otherwise text, hex:... or base64:...
    key: String,
    /// The value: text, hex:..., base64:..., u64:NUMBER or f32:NUMBER,...; without it, the bytes of standard input.
    #[arg(conflicts_with = "file")]
    value: Option<String>,
    /// Take the value from this file, as it is; - is standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    key: Shown,
    created: bool,
    version: u64,
    durability: Durability,
}

impl Put {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let report = self.store.on(self.worked).with_store(|store| {
            let table = store.table(&self.table)?;
            let mut batch = table.batch();
            let key = key_from_text(batch.key_spec(), &self.key).map_err(Failure::Usage)?;
            let value = self.value(batch.value_spec())?;
            batch.put(&key, &value).map_err(warpkeep::Error::from)?;
            let durability = self.lasting.of(store);
            let results = table.run(&batch, durability)?;
            super::check_statuses(&results)?;
            let created = results.statuses()[0] == Status::Created;
            Ok(Report {
                key: shown_key(batch.key_spec(), &key, true),
                created,
                version: results.versions()[0],
                durability,
            })
        })?;
        self.format.show(&report, || {
            let done = if report.created { "created" } else { "replaced" };
            let note = lasting::note(report.durability);
            format!("{done} {} (version {}){note}\n", report.key, report.version)
        })
    }

    fn value(&self, spec: ValueSpec) -> Result<Vec<u8>, Failure> {
        let value = match (&self.value, self.file.as_deref()) {
            (Some(text), _) => Coding::parse_marked(text).map_err(Failure::Usage)?,
            (None, Some(path)) if path != Path::new("-") => {
                let doing = || format!("read {}", path.display());
                let file = File::open(path).map_err(Failure::io(doing()))?;
                bounded(file, spec).map_err(Failure::io(doing()))?
            }
            (None, file) => {
                if file.is_none() && std::io::stdin().is_terminal() {
                    return Err(Failure::Usage("give a value, or --file FILE".to_owned()));
                }
                bounded(std::io::stdin().lock(), spec).map_err(Failure::io("read standard input"))?
            }
        };
        spec.check(&value).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(value)
    }
}

/// All of it, but not much more than the table takes: a longer value is refused anyway.
fn bounded(source: impl Read, spec: ValueSpec) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(spec.max_len() as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
