//! Figure 13: rates and highest load factors by geometry.

use super::{Options, sweep};
use crate::chart::{Chart, Trade, TradePoint};
use crate::load_factor::{self, all_geometries};
use crate::measure::Spread;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress, compare};

const CASE: &str = "figure 13: YCSB C and highest load factor by geometry";
const HIGHEST: &str = "highest load factor";

pub(super) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    let geometries = all_geometries();
    for repeat in 0..options.repeats {
        for &geometry in &geometries {
            let compare = compare::Options { geometry, ..options.compare() };
            let measured = sweep::measure(&compare, progress)?;
            measured.add_to(report, CASE, &geometry.to_string(), repeat * options.rounds);
        }
    }
    let filled = load_factor::run(
        &load_factor::Options {
            items: options.items,
            geometries: geometries.clone(),
            repeats: options.repeats,
            seed: options.seed,
            command: options.command.clone(),
            ..load_factor::Options::default()
        },
        progress,
    )?;
    let mut trades = Vec::new();
    for geometry in geometries {
        let name = geometry.to_string();
        let loads = filled.series(load_factor::CASE, &name, "highest");
        for (round, &load) in loads.iter().enumerate() {
            report.add(CASE, &name, round as u32, HIGHEST, Unit::Percent, load);
        }
        let rates = Spread::of(&report.series(CASE, &name, "rate"));
        if let (Some(rates), Some(loads)) = (rates, Spread::of(&loads)) {
            let point = TradePoint { label: name.clone(), x: rates.median * 1e-6, y: loads.median };
            trades.push(Trade { name, points: vec![point] });
        }
    }
    report.notes.push(
        "figure 13: the paper gives no numbers; it says that more hash locations and levels give higher load factors, and that few \
         slots in a bucket cost rate; 2L-2H-8S is its default and ours"
            .to_owned(),
    );
    report.charts.push(Chart::trades(CASE, "M/s", "highest load factor, %", trades));
    Ok(())
}
