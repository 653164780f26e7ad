//! `warpkeep backup`.

use std::path::{Path, PathBuf};

use clap::Args;
use warpkeep_bench::size::Size;

use super::served_backup;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Format, counted};
use crate::progress::Bars;
use crate::store::{Reading, StoreAt};

/// Of which store, and where to.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    reading: Reading,
    /// The directory to make; it must not exist, or be empty.
    #[arg(required_unless_present = "address", conflicts_with = "address")]
    to: Option<PathBuf>,
    /// Have the server at this address, such as 127.0.0.1:11311, back up the store that it serves, while it serves
    /// on. In place of STORE give a name for the backup, which is made in the server's --backups directory.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["image", "read_only", "adopt_copy", "abandon_image"])]
    address: Option<String>,
    /// A file whose first line is the password of that server.
    #[arg(long, value_name = "FILE", requires = "address")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Backup {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match (&self.address, &self.to) {
            (Some(address), _) => self.served(address),
            (None, Some(to)) => self.own(to),
            (None, None) => Err(Failure::Usage("give the directory to make".to_owned())),
        }
    }

    /// Has a server make it.
    fn served(&self, address: &str) -> Result<(), Failure> {
        let name = self.store.directory.to_str();
        let name = name.ok_or_else(|| Failure::Usage("a backup's name is text".to_owned()))?;
        let interrupt = Interrupt::listen()?;
        let made = served_backup::make(address, self.password_file.as_deref(), name, &interrupt)?;
        self.format.show(&made, || {
            format!(
                "the server at {address} backed up {} with {} ({}) to {} in its directory, in {:.2} s\n",
                counted(made.tables, "table"),
                counted(made.items, "item"),
                Size(made.bytes),
                made.name,
                made.seconds
            )
        })
    }

    fn own(&self, to: &Path) -> Result<(), Failure> {
        let bars = Bars::new(!self.format.json, &Interrupt::never());
        let report = self.store.with_store_to_read(self.reading, |store| {
            let mut progress = bars.bytes("copying");
            Ok(store.backup(to, &mut |done, total| progress.set(done, total))?)
        })?;
        drop(bars);
        self.format.show(&report, || {
            format!(
                "backed up {} with {} ({}) to {} in {:.2} s\n",
                counted(report.tables, "table"),
                counted(report.items, "item"),
                Size(report.bytes),
                report.path.display(),
                report.seconds
            )
        })
    }
}
