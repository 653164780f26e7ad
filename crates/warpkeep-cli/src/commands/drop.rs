//! `warpkeep drop`.

use clap::Args;
use serde::Serialize;

use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::StoreAt;

/// Which table.
#[derive(Debug, Args)]
pub(crate) struct Drop {
    #[command(flatten)]
    store: StoreAt,
    /// The name of the table.
    table: String,
    /// Do not ask before dropping the table.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    dropped: &'a str,
    items: u64,
}

impl Drop {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let items = self.store.with_store(|store| {
            let items = store.table(&self.table)?.len();
            let question = format!("Throw table {} with {} items away?", self.table, count(items));
            confirm(self.yes, "the table", &question)?;
            store.drop_table(&self.table)?;
            Ok(items)
        })?;
        let report = Report { dropped: &self.table, items };
        self.format.show(&report, || {
            format!("dropped table {} with {} items\n", report.dropped, count(report.items))
        })
    }
}
