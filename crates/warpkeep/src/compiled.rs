//! The generic code of stores and tables, instantiated in this crate.
//!
//! Generic code is compiled where it is used, and all of it here is generic over how memory persists. In builds
//! with little optimisation, such as debug builds, the compiler reuses the instances of a crate below. So this
//! module uses everything once, for the memory that programs have: otherwise every program and every test that uses
//! a store would compile the whole engine again, ten seconds each.

use warpkeep_core::{Answers, BatchView, Durability, Output};
use warpkeep_device::Stream;

use crate::{Result, Store, TableOptions};

/// Never called; the linker removes it.
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
    table.stats()?;
    table.device_stats()?;
    drop(table);
    store.drop_table("")?;
    store.checkpoint()?;
    store.flush()?;
    store.close()
}
