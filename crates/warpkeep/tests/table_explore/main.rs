//! The crash explorer over a whole store of tables: created, written, grown, dropped, with an image and a log.
//!
//! The surviving state must be that after some of the steps, and enough of them: after the death of a process
//! everything acknowledged, after a power cut everything acknowledged with `Power`. A step in progress is there as
//! a whole or not at all with `Power`, and key by key with `Process`.
//!
//! In a program of its own: what a table frees waits for the readers of the whole process, so other tests would decide
//! when it happens.

mod check;
#[path = "../common/form.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod form;
mod history;
#[path = "../explore/lab_place.rs"]
mod lab_place;
mod rig;
mod script;
mod state;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::OnceLock;

use warpkeep_crashlab::{Crash, Exploration, Explorer, MemoryModel, Site, SiteKind, Trace, explores_fully};

use rig::Rig;

fn say(line: &str) {
    // An error means that standard output is closed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn explorer(crashes: &[Crash]) -> Explorer {
    // On one thread: the epochs that free records are the process's, so runs beside each other would not be repeatable.
    Explorer::new(crashes.iter().copied()).threads(1)
}

/// The result of a rig, and the sites passed on the way.
struct Explored {
    rig: Rig,
    exploration: Exploration,
    sites: BTreeSet<Site>,
}

/// Explores all rigs, once for both tests, so that nothing else runs beside it.
fn explored() -> &'static [Explored] {
    static EXPLORED: OnceLock<Vec<Explored>> = OnceLock::new();
    EXPLORED.get_or_init(|| Rig::all().into_iter().map(explore).collect())
}

fn explore(rig: Rig) -> Explored {
    let crashes: &[Crash] = match rig.persistent {
        false => &[Crash::Process, Crash::PowerVolatile],
        true => &[
            Crash::Process,
            Crash::PowerPersistent(MemoryModel::X86Lines),
            Crash::PowerPersistent(MemoryModel::Words),
        ],
    };
    let trace = Trace::new();
    rig.record(&trace);
    let (per_boundary, per_recovery) =
        if explores_fully() { (12, rig.per_recovery) } else { (6, rig.per_recovery / 2) };
    let explorer = explorer(crashes).per_boundary(per_boundary).per_recovery(per_recovery);
    let exploration = explorer.explore(&trace, |reopen| check::check(&rig, reopen));
    say(&format!("explored tables of a store, {rig}: {exploration}"));
    let sites = trace.sites().union(&exploration.recovery_sites).copied().collect();
    Explored { rig, exploration, sites }
}

#[test]
fn every_crash_is_survived() {
    let mut images = 0;
    for Explored { exploration, .. } in explored() {
        exploration.assert_clean();
        images += exploration.images;
    }
    assert!(
        images > if explores_fully() { 20_000 } else { 10_000 },
        "the scripts have become too small: {images} images"
    );
}

/// Parts of the store whose flushes, fences and syncs are tested here. Those of the image and its heap are dropped
/// by their own explorers, which reach the critical points with far fewer events.
const PARTS: [&str; 5] = ["gphash.", "turbohash.", "catalogue.", "image.pending.", "log."];

/// Fences that a table in a store could do without, because another follows on the same thread before the bytes they
/// cover are reachable. A table by itself needs them, and its own explorer drops them; a store without a log needs the
/// catalogue's.
const FOLLOWED: [(&str, SiteKind); 5] = [
    ("catalogue.block", SiteKind::Fence),
    ("gphash.header", SiteKind::Fence),
    ("gphash.repair", SiteKind::Fence),
    ("image.pending.name", SiteKind::Fence),
    ("turbohash.header", SiteKind::Fence),
];

fn is_ours(site: &Site) -> bool {
    PARTS.iter().any(|part| site.name.starts_with(part))
        && !FOLLOWED.contains(&(site.name, site.kind))
        && !warpkeep_log::site::PACING.contains(&site.name)
}

/// Whether a rig notices that a site is missing, with up to `depth` crashes in a row.
fn notices(rig: &Rig, site: Site, depth: usize) -> bool {
    let trace = Trace::dropping(site);
    rig.record(&trace);
    // A crash by lines is also possible by words.
    let crashes: &[Crash] = match rig.persistent {
        false => &[Crash::Process, Crash::PowerVolatile],
        true => &[Crash::Process, Crash::PowerPersistent(MemoryModel::Words)],
    };
    let explorer = explorer(crashes).per_boundary(8).per_recovery(rig.per_recovery).depth(depth);
    let explorer = explorer.dropping(site).most_violations(1);
    !explorer.explore(&trace, |reopen| check::check(rig, reopen)).is_clean()
}

/// Drops every site in turn. It is enough if one of the rigs that pass it notices.
#[test]
fn every_missing_flush_fence_and_sync_is_noticed() {
    let sites: BTreeSet<Site> =
        explored().iter().flat_map(|explored| &explored.sites).copied().filter(is_ours).collect();
    let mut missed = Vec::new();
    for &site in &sites {
        // Flushes and fences matter on persistent memory; their absence is noticed there or nowhere.
        let of_memory = matches!(site.kind, SiteKind::Flush | SiteKind::Fence);
        let mut rigs: Vec<&Explored> =
            explored().iter().filter(|explored| explored.sites.contains(&site)).collect();
        rigs.retain(|explored| !of_memory || explored.rig.persistent);
        rigs.sort_by_key(|explored| explored.rig.script.len());
        // Most are noticed without a crash of the recovery, which takes far longer.
        let caught =
            [1, 2].iter().any(|&depth| rigs.iter().any(|explored| notices(&explored.rig, site, depth)));
        if !caught {
            missed.push(site);
        }
    }
    say(&format!("mutation gate of a store: {} of {} caught", sites.len() - missed.len(), sites.len()));
    assert!(missed.is_empty(), "not noticed when missing: {missed:?}");
    for part in PARTS {
        assert!(
            sites.iter().any(|site| site.name.starts_with(part)),
            "nothing of {part} was reached: {sites:?}"
        );
    }
}
