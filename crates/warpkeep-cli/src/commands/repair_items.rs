//! `warpkeep repair` of items that are damaged in the image.

use std::fmt::Write as _;

use warpkeep::{RepairOptions, RepairReport, repair};
use warpkeep_bench::{Amount, Progress};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Format, count, counted};
use crate::progress::Bars;
use crate::store::StoreAt;

/// Repairs damaged items from checkpoint and log. Lost items have an exit code of their own.
pub(super) fn run(
    store: &StoreAt,
    table: Option<&str>,
    dry_run: bool,
    format: Format,
) -> Result<(), Failure> {
    let bars = Bars::new(!format.json, &Interrupt::listen()?);
    let (mut begun, mut before) = (false, 0);
    let what = RepairOptions { table: table.map(str::to_owned), dry_run };
    let report = repair(&store.directory, &store.options()?, &what, &mut |done, total| {
        if !begun {
            bars.begin("comparing", Amount::Count(total));
            begun = true;
        }
        bars.advance(done - before);
        before = done;
    })?;
    drop(bars);
    format.show(&report, || text(&report))?;
    match report.lost {
        0 => Ok(()),
        lost => Err(Failure::Lost(format!(
            "{} lost, as listed; a backup may have what is missing",
            counted(lost, "item")
        ))),
    }
}

fn text(report: &RepairReport) -> String {
    let mut text = String::new();
    let would = if report.dry_run { "would be " } else { "" };
    for table in &report.tables {
        let _ = writeln!(text, "table {}: {}", table.table, counted(table.damaged, "damaged item"));
        for item in &table.restored {
            let doubt = if item.perhaps_deleted { "; it may have been deleted since" } else { "" };
            let _ = writeln!(text, "  {would}put right: key {}{doubt}", item.key);
        }
        for key in &table.removed {
            let _ = writeln!(text, "  {would}removed, for the log does not have it: key {key}");
        }
        for item in &table.lost {
            let key =
                item.key.as_ref().map_or("a key that cannot be read".to_owned(), |key| format!("key {key}"));
            let _ = writeln!(
                text,
                "  LOST: {key} in slot {} of the bucket at {}: {}",
                item.slot, item.bucket, item.damage
            );
        }
    }
    let _ = writeln!(
        text,
        "{}{} put right, {} removed, {} lost ({:.2} s)",
        if report.dry_run { "nothing was changed; " } else { "" },
        count(report.restored),
        count(report.removed),
        count(report.lost),
        report.seconds
    );
    text
}
