//! `warpkeep repair --manifest`.

use serde::Serialize;
use warpkeep::{RepairedManifest, repair_manifest};

use crate::failure::Failure;
use crate::output::{Format, counted};
use crate::store::StoreAt;

#[derive(Debug, Serialize)]
struct Report {
    /// The new manifest; `None` if the old one is valid.
    manifest: Option<RepairedManifest>,
}

/// Makes the manifest of a log again, if it is needed.
pub(super) fn run(store: &StoreAt, format: Format) -> Result<(), Failure> {
    let report = Report { manifest: repair_manifest(&store.directory, &store.recovering())? };
    format.show(&report, || match &report.manifest {
        None => "the manifest is good; nothing was changed\n".to_owned(),
        Some(made) => format!(
            "made the manifest again: {}, {} in the log, the last is {}; `warpkeep verify {}` checks the whole store\n",
            made.checkpoint.map_or("no checkpoint".to_owned(), |checkpoint| {
                format!("checkpoint {} with {}", checkpoint.id, counted(checkpoint.changes, "item"))
            }),
            counted(made.records, "record"),
            made.last_lsn,
            store.named()
        ),
    })
}
