//! The process that is killed: writes as planned, and acknowledges each write through its standard output.

use std::io::Write;

use clap::Args;
use warpkeep::Table;

use super::TABLE;
use super::plan::{Plan, Stamp, Step};
use crate::failure::Failure;
use crate::store::{StoreAt, Worked};

/// The plan and the store.
#[derive(Debug, Args)]
pub(crate) struct DemoWriter {
    #[command(flatten)]
    pub(crate) store: StoreAt,
    #[command(flatten)]
    pub(crate) worked: Worked,
    #[arg(long)]
    pub(crate) rows: u64,
    #[arg(long)]
    pub(crate) writers: u32,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) round: u32,
}

impl DemoWriter {
    /// Ends only by being killed, or by an error.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let plan = Plan { seed: self.seed, rows: self.rows, writers: self.writers };
        let at = self.store.on(self.worked);
        at.check_is_there()?;
        let store = at.open(at.options()?)?;
        let table = store.table(TABLE)?;
        let write = |writer: u32| -> Result<(), Failure> {
            for number in 0.. {
                let stamp = Stamp::new(self.round, writer, number);
                write_step(&table, &plan, &plan.step(stamp))?;
                // Eight bytes go through a pipe whole or not at all.
                let mut out = std::io::stdout().lock();
                let told = out.write_all(&stamp.0.to_le_bytes()).and_then(|()| out.flush());
                told.map_err(Failure::io("acknowledge"))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.writers).map(|writer| scope.spawn(move || write(writer))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().map_err(|_| Failure::error("a writer of the demonstration panicked"))?
            })
        })
    }
}

fn write_step(table: &Table, plan: &Plan, step: &Step) -> Result<(), Failure> {
    let (mut batch, mut row) = (table.batch(), Vec::new());
    for &key in &step.keys {
        plan.row(key, step.stamp, &mut row);
        batch.put(key, &row).map_err(warpkeep::Error::from)?;
    }
    super::super::check_statuses(&table.run(&batch, step.durability)?)
}
