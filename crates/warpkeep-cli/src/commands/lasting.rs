//! The durability of a write.

use clap::{Args, ValueEnum};
use warpkeep::{Durability, Store};

/// The durability of a write.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Lasting {
    /// What the write survives; by default the most that the store offers.
    #[arg(long, value_enum)]
    durability: Option<Survives>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Survives {
    /// The death of the process.
    Process,
    /// The death of the machine; needs a log.
    Power,
}

impl Lasting {
    /// Of a store without a log, only `Process` can be had.
    pub(crate) fn of(self, store: &Store) -> Durability {
        match self.durability {
            Some(Survives::Process) => Durability::Process,
            Some(Survives::Power) => Durability::Power,
            None => strongest(store),
        }
    }
}

/// The most that a store can promise.
pub(crate) fn strongest(store: &Store) -> Durability {
    // The report has a log exactly if the store has one.
    if store.report().log.is_some() { Durability::Power } else { Durability::Process }
}

/// The note after a write that a power cut may lose.
pub(crate) fn note(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => ", survives the process",
        Durability::Power => "",
    }
}
