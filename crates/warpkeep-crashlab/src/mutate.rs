//! The mutation gate: every flush, fence and sync must be missed when it is gone.

use std::fmt;

use crate::event::Site;
use crate::explore::{Exploration, Explorer};
use crate::reopen::Reopen;
use crate::trace::Trace;

/// The results of the gate.
#[derive(Clone, Debug)]
#[must_use = "a gate says what it found and does not fail by itself"]
pub struct Gate {
    /// The exploration with nothing dropped.
    pub baseline: Exploration,
    /// Sites whose absence was noticed.
    pub caught: Vec<Site>,
    /// Sites whose absence was not noticed: each is redundant, or the scenario does not reach the point where it
    /// matters.
    pub missed: Vec<Site>,
}

/// Runs a scenario once unchanged, which must be clean, and then once for each site of it or of its recovery with
/// that site dropped, which must not be.
///
/// The scenario's return value is passed to the check, with the machine after the crash. For the sites of recovery
/// the check must reach the point where they matter: recover, continue to work, [`ack`](Reopen::ack), and be
/// crashed again, which takes a [`depth`](Explorer::depth) of 2 or more.
///
/// ```
/// use warpkeep_crashlab::{Crash, Explorer, LabDisk, Trace, mutation_gate};
/// use warpkeep_log::Disk;
///
/// let gate = mutation_gate(
///     &Explorer::new([Crash::PowerVolatile]),
///     |trace: &Trace| {
///         let disk = LabDisk::new(trace);
///         let file = disk.create("greeting").unwrap();
///         file.write_at(b"hello", 0).unwrap();
///         file.sync("greeting").unwrap();
///         disk.sync_dir("greeting").unwrap();
///         trace.ack(1);
///     },
///     |(), reopen| {
///         let mut bytes = [0; 5];
///         let read = reopen.disk().open("greeting").and_then(|file| file.read_at(&mut bytes, 0));
///         if reopen.acked().is_empty() || (read.is_ok() && bytes == *b"hello") {
///             Ok(())
///         } else {
///             Err("the greeting is gone".into())
///         }
///     },
/// );
/// gate.assert_all_caught();
/// assert_eq!(gate.to_string(), "2 of 2 sites caught");
/// ```
pub fn mutation_gate<S: Sync>(
    explorer: &Explorer,
    scenario: impl Fn(&Trace) -> S,
    check: impl Fn(&S, &Reopen<'_>) -> Result<(), String> + Sync,
) -> Gate {
    mutation_gate_of(explorer, |_| true, scenario, check)
}

/// [`mutation_gate`] for some of the sites: where several scenarios share them, those that one has caught need not be
/// dropped again in the next.
pub fn mutation_gate_of<S: Sync>(
    explorer: &Explorer,
    wanted: impl Fn(Site) -> bool,
    scenario: impl Fn(&Trace) -> S,
    check: impl Fn(&S, &Reopen<'_>) -> Result<(), String> + Sync,
) -> Gate {
    let run = |explorer: &Explorer, trace: &Trace| {
        let given = scenario(trace);
        explorer.explore(trace, |reopen| check(&given, reopen))
    };
    let trace = Trace::new();
    let mut gate = Gate { baseline: run(explorer, &trace), caught: Vec::new(), missed: Vec::new() };
    if !gate.baseline.is_clean() {
        return gate;
    }
    let sites: Vec<Site> = trace.sites().union(&gate.baseline.recovery_sites).copied().collect();
    for site in sites.into_iter().filter(|&site| wanted(site)) {
        let mutant = explorer.clone().dropping(site).most_violations(1);
        let clean = run(&mutant, &Trace::dropping(site)).is_clean();
        if clean { &mut gate.missed } else { &mut gate.caught }.push(site);
    }
    gate
}

impl Gate {
    /// Fails the test unless every site was caught, and there were any.
    ///
    /// # Panics
    /// With the sites that were missed, or with the violations of the unchanged scenario.
    #[track_caller]
    pub fn assert_all_caught(&self) {
        self.baseline.assert_clean();
        assert!(self.missed.is_empty() && !self.caught.is_empty(), "{self}");
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.baseline.is_clean() {
            return write!(f, "nothing was dropped, and still: {}", self.baseline);
        }
        write!(f, "{} of {} sites caught", self.caught.len(), self.caught.len() + self.missed.len())?;
        for (index, site) in self.missed.iter().enumerate() {
            write!(f, "{} {site}", if index == 0 { "; not caught:" } else { "," })?;
        }
        Ok(())
    }
}
