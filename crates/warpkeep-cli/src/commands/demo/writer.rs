//! The process that is killed: writes as planned, and acknowledges each write through its standard output.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use warpkeep::{Cells, Edit, ImageFile, Keeper, LogPlace, OpenReport, open};
use warpkeep_image::Coherent;
use warpkeep_log::{LogOptions, OsDisk};

use super::plan::{Plan, Stamp, Step};
use crate::failure::Failure;

pub(crate) type Store = Keeper<Coherent, Cells<Coherent>>;

/// What to write where.
#[derive(Debug, Args)]
pub(crate) struct DemoWriter {
    #[arg(long)]
    pub(crate) image: PathBuf,
    #[arg(long)]
    pub(crate) log: PathBuf,
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
        let (store, _) = open_store(&self.image, &self.log, self.rows)?;
        let write = |writer: u32| -> Result<(), Failure> {
            for number in 0.. {
                let stamp = Stamp::new(self.round, writer, number);
                write_step(&store, &plan, &plan.step(stamp))?;
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

pub(crate) fn open_store(image: &Path, log: &Path, rows: u64) -> Result<(Store, OpenReport), Failure> {
    let place = ImageFile::new(image, Coherent);
    let log = LogPlace::new(OsDisk::open(log)?, LogOptions::default());
    Ok(open::<_, Cells<_>>(&place, Some(log), Default::default(), &rows)?)
}

pub(crate) fn write_step(store: &Store, plan: &Plan, step: &Step) -> Result<(), Failure> {
    let mut rows = vec![Vec::new(); step.cells.len()];
    for (&cell, row) in step.cells.iter().zip(&mut rows) {
        plan.row(cell, step.stamp, row);
    }
    let edits: Vec<Edit<'_>> =
        step.cells.iter().zip(&rows).map(|(&cell, row)| (cell, Some(&row[..]))).collect();
    Ok(store.edit(&edits, step.durability)?)
}
