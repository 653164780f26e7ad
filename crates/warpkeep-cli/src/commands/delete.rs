//! `warpkeep delete`.

use clap::Args;
use serde::Serialize;
use warpkeep::{Durability, Status};

use super::lasting::{self, Lasting};
use crate::cell::key_from_text;
use crate::failure::Failure;
use crate::output::Format;
use crate::store::{StoreAt, Worked};

/// Which keys.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    /// The name of the table.
    table: String,
    /// The keys: integers such as 42 or 0x2a for u64 keys; otherwise text, hex:... or base64:...
    #[arg(required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    deleted: usize,
    not_there: usize,
    durability: Durability,
}

impl Delete {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let report = self.store.on(self.worked).with_store(|store| {
            let table = store.table(&self.table)?;
            let mut batch = table.batch();
            for key in &self.keys {
                let key = key_from_text(batch.key_spec(), key).map_err(Failure::Usage)?;
                batch.delete(&key).map_err(warpkeep::Error::from)?;
            }
            let durability = self.lasting.of(store);
            let results = table.run(&batch, durability)?;
            super::check_statuses(&results)?;
            let deleted = results.statuses().iter().filter(|status| **status == Status::Ok).count();
            Ok(Report { deleted, not_there: results.len() - deleted, durability })
        })?;
        self.format.show(&report, || {
            let note = lasting::note(report.durability);
            match report.not_there {
                0 => format!("deleted {}{note}\n", report.deleted),
                not_there => format!("deleted {}; {not_there} not there{note}\n", report.deleted),
            }
        })
    }
}
