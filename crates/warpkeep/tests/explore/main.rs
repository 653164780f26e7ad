//! The crash explorer over everything that persists: image, heap, log, and a store of all three.
//!
//! Each scenario is recorded once, crashed at every boundary in every way the fault model knows, and reopened
//! with the real recovery code, which is then crashed itself. The mutation gate drops every flush, fence and sync
//! in turn and expects the same explorer to notice.

mod disk_image;
mod growth;
mod heap;
mod lab_place;
mod log;
mod slots;
mod store;

use std::collections::BTreeSet;
use std::io::Write as _;

use warpkeep_crashlab::{Exploration, Explorer, Gate, Site, explores_fully};

type Scenario<Found> = (&'static str, fn() -> Found);
type DroppingScenario = (&'static str, fn(&Dropped) -> Gate);

/// How often sites that no scenario noticed are dropped again, with other samples. Stores have threads of their own, so that
/// their traces, and with them the samples, differ from run to run.
const SAMPLES: u64 = 4;

/// The sites that a gate drops, and the sample of crashes that it explores.
struct Dropped {
    /// All of them in the first sample; then those that were missed.
    sites: Option<BTreeSet<Site>>,
    seed: u64,
}

impl Dropped {
    fn has(&self, site: Site) -> bool {
        self.sites.as_ref().is_none_or(|sites| sites.contains(&site))
    }

    fn sampled(&self, explorer: Explorer) -> Explorer {
        explorer.seed(self.seed)
    }
}

/// Prints the results past the test harness, which would hide them.
fn say(line: &str) {
    // An error means that standard output is closed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Explores everything and counts the images.
#[test]
fn every_crash_is_survived() {
    let scenarios: [Scenario<Exploration>; 9] = [
        ("header slots, roots, pending commits", slots::explore),
        ("an image in an ordinary file", disk_image::explore),
        ("allocate and free", heap::explore),
        ("release and reuse", heap::explore_release),
        ("growth", growth::explore),
        ("growth across a directory chunk", growth::explore_directory),
        ("log append, roll, checkpoint, trim, reopen", log::explore),
        ("a store, memory lost with the power", store::explore_volatile),
        ("a store, memory persistent", store::explore_persistent),
    ];
    let mut images = 0;
    for (name, explore) in scenarios {
        let exploration = explore();
        say(&format!("explored {name}: {exploration}"));
        exploration.assert_clean();
        images += exploration.images;
    }
    say(&format!("explored in all: {images} images"));
    let enough = if explores_fully() { 100_000 } else { 20_000 };
    assert!(images > enough, "the scenarios have become too small: {images} images");
}

/// Drops every site in turn. A site may be noticed by any of the scenarios that pass it.
#[test]
fn every_missing_flush_fence_and_sync_is_noticed() {
    let gates: [DroppingScenario; 8] = [
        ("slots", slots::gate),
        ("disk image", disk_image::gate),
        ("heap", heap::gate),
        ("release", heap::gate_release),
        ("growth", growth::gate),
        ("log", log::gate),
        ("store, volatile", store::gate_volatile),
        ("store, persistent", store::gate_persistent),
    ];
    let mut caught = BTreeSet::new();
    let mut missed = BTreeSet::new();
    for seed in 1..=SAMPLES {
        let drop = Dropped { sites: (seed > 1).then(|| missed.clone()), seed };
        for (name, gate) in gates {
            let gate = gate(&drop);
            gate.baseline.assert_clean();
            say(&format!("gate {name}, sample {seed}: {} sites caught here", gate.caught.len()));
            caught.extend(gate.caught);
            missed.extend(gate.missed);
        }
        // The rig's own substitutes for the file system, and syncs that only pace the disk.
        missed.retain(|site| !caught.contains(site) && !site.name.starts_with("lab."));
        missed.retain(|site| !warpkeep_log::site::PACING.contains(&site.name));
        if missed.is_empty() {
            break;
        }
    }
    caught.retain(|site| !site.name.starts_with("lab."));
    say(&format!("mutation gate: {} of {} caught", caught.len(), caught.len() + missed.len()));
    assert!(missed.is_empty(), "not noticed when missing: {missed:?}");
    assert!(caught.len() > 20, "sites have vanished: {caught:?}");
}
