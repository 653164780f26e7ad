//! `warpkeep list`.

use clap::Args;
use warpkeep::{Peek, PeekSource, TablePeek};
use warpkeep_bench::Table;

use crate::elements::ELEMENTS;
use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{Reading, StoreAt};

/// Of which store.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    store: StoreAt,
    /// This command never writes.
    #[command(flatten)]
    _reading: Reading,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl List {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let peek = self.store.peek()?;
        self.format.show(&peek, || text(&peek))
    }
}

fn text(peek: &Peek) -> String {
    let mut text = tables(peek);
    if peek.source == PeekSource::Log {
        text += "note: there is no image to use; this is what the log says, and opening the store rebuilds the image\n";
    }
    text
}

/// Properties specific to its index.
fn form(table: &TablePeek) -> String {
    match (table.geometry, table.layout, table.shards) {
        (Some(geometry), Some(layout), _) => format!("{geometry}, {layout}"),
        (.., Some(shards)) => format!("{} shards", count(u64::from(shards))),
        _ => String::new(),
    }
}

/// A line a table.
pub(crate) fn tables(peek: &Peek) -> String {
    if peek.tables.is_empty() {
        return "no tables\n".to_owned();
    }
    let mut lines = Table::new(["table", "items", "keys", "values", "index", "form", "merge"]);
    for table in &peek.tables {
        lines.row([
            table.name.clone(),
            count(table.items),
            table.key.to_string(),
            match table.attributes.get(ELEMENTS) {
                Some(elements) => format!("{} ({elements})", table.value),
                None => table.value.to_string(),
            },
            table.index.to_string(),
            form(table),
            table.merge.name().to_owned(),
        ]);
    }
    lines.to_string()
}
