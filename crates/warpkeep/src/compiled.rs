//! What stores and tables do, compiled with this crate.
//!
//! Generic code is compiled where it is used, and all of it here is generic over how memory persists. Where little is
//! optimised, as in debug builds, the compiler takes what a crate below has compiled already. So that there is something to
//! take it is all used here once, for the memory that programs have: otherwise every program and every test that uses a
//! store compiles the whole engine again, ten seconds each.

use warpkeep_core::{Answers, BatchView, Durability, Output};
use warpkeep_device::Stream;

use crate::{Result, Store, TableOptions};

/// Nobody calls this; the linker leaves it out.
pub fn once(
    store: Store,
    options: TableOptions,
    batch: &BatchView<'_>,
    (answers, output): (&mut dyn Answers, Output<'_>),
    stream: &Stream,
) -> Result<()> {
    let table = store.create_table("", options)?;
    drop(table.run(&table.batch(), Durability::Process)?);
    table.run_into(batch, Durability::Process, answers)?;
    table.run_on(batch, Durability::Process, output, stream)?;
    table.grow()?;
    table.maintain()?;
    table.stats();
    table.device_stats()?;
    table.cache_stats()?;
    drop(table);
    store.drop_table("")?;
    store.checkpoint()?;
    store.flush()?;
    store.close()
}
