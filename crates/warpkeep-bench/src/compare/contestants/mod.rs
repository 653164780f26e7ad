//! Who takes part, and what each needs.

mod alone;
#[cfg(feature = "peer-dashmap")]
mod dashmap;
pub(crate) mod limit;
#[cfg(feature = "peer-lmdb")]
mod lmdb;
#[cfg(any(feature = "peer-papaya", feature = "peer-scc", feature = "peer-dashmap"))]
mod map;
#[cfg(feature = "peer-papaya")]
mod papaya;
#[cfg(feature = "peer-redb")]
mod redb;
#[cfg(feature = "peer-scc")]
mod scc;
pub(crate) mod warpkeep;

use ::warpkeep::Durability;

use super::contestant::Contestant;
use crate::BenchError;
use crate::scratch::Scratch;
use crate::workload::Workload;

/// The names that goals are about.
pub(crate) const WARPKEEP: &str = "warpkeep";
pub(crate) const WARPKEEP_WITHOUT_LOG: &str = "warpkeep without log";
pub(crate) const ALONE: &str = "the workload alone";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const DASHMAP: &str = "dashmap";
pub(crate) const DASHMAP_LOGGED: &str = "dashmap + log";
pub(crate) const MAPS: [&str; 3] = ["papaya", "scc", DASHMAP];
pub(crate) const TREES: [&str; 2] = ["LMDB", "redb"];

/// What a contestant is set up with.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) workload: Workload,
    pub(crate) scratch: &'a Scratch,
    pub(crate) batch: usize,
    pub(crate) durability: Durability,
}

impl Setup<'_> {
    /// A directory for the files of a peer: where the image lies, or on the disk if they must survive the machine.
    #[cfg(any(feature = "peer-lmdb", feature = "peer-redb"))]
    fn peer_directory(&self, name: &str) -> Result<std::path::PathBuf, BenchError> {
        let path = match self.durability {
            Durability::Process => self.scratch.images().join(name),
            Durability::Power => self.scratch.disk().join(name),
        };
        std::fs::create_dir_all(&path).map_err(BenchError::io(format!("make {}", path.display())))?;
        Ok(path)
    }
}

/// What [`Setup::peer_directory`] chose.
#[cfg(any(feature = "peer-lmdb", feature = "peer-redb"))]
fn where_it_lies(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "files where the image lies",
        Durability::Power => "files on the disk",
    }
}

type Open = fn(&Setup<'_>) -> Result<Box<dyn Contestant>, BenchError>;

/// Somebody who could take part.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    /// Memory it takes once it is loaded, files in memory included.
    pub(crate) memory: u64,
    /// Of that, what lies in the image's directory.
    pub(crate) image: u64,
    pub(crate) open: Open,
}

/// Everybody this program was built with, ourselves first.
pub(crate) fn entrants(workload: &Workload) -> Vec<Entrant> {
    let image = warpkeep::image_bytes(workload);
    let array = limit::array_bytes(workload);
    #[allow(unused_mut, reason = "there may be no peers")]
    let mut entrants = vec![
        entrant(WARPKEEP, image, image, |setup| Ok(Box::new(warpkeep::Warpkeep::open(setup, true)?))),
        entrant(ALONE, 0, 0, |setup| Ok(Box::new(alone::Alone { workload: setup.workload }))),
        entrant(MEMORY, array, array, limit::open),
        entrant(WARPKEEP_WITHOUT_LOG, image, image, |setup| {
            Ok(Box::new(warpkeep::Warpkeep::open(setup, false)?))
        }),
    ];
    #[cfg(any(feature = "peer-papaya", feature = "peer-scc", feature = "peer-dashmap"))]
    let item = (workload.key_bytes + workload.value_bytes) as u64;
    // An allocation an item, with its head, and a table of pointers that is at most half full.
    #[cfg(feature = "peer-papaya")]
    entrants.push(entrant("papaya", workload.items * (item + 16 + 2 * 9), 0, papaya::open));
    // Buckets of 32, sized for three quarters.
    #[cfg(feature = "peer-scc")]
    entrants.push(entrant("scc", workload.items * item * 2, 0, scc::open));
    #[cfg(feature = "peer-dashmap")]
    {
        // A power of two of slots, at most seven eighths full, with a byte of control each.
        let slots = (workload.items * 8 / 7).next_power_of_two();
        entrants.push(entrant(DASHMAP, slots * (item + 1), 0, dashmap::open));
        entrants.push(entrant(DASHMAP_LOGGED, slots * (item + 1), 0, dashmap::open_logged));
    }
    #[cfg(feature = "peer-lmdb")]
    {
        let file = lmdb::file_bytes(workload);
        entrants.push(entrant("LMDB", file, file, lmdb::open));
    }
    #[cfg(feature = "peer-redb")]
    {
        let file = redb::file_bytes(workload);
        entrants.push(entrant("redb", file + redb::cache_bytes(workload), file, redb::open));
    }
    entrants
}

fn entrant(name: &'static str, memory: u64, image: u64, open: Open) -> Entrant {
    Entrant { name, memory, image, open }
}

/// Peers that this program was built without.
pub(crate) fn missing_peers() -> Vec<&'static str> {
    let all = [
        ("papaya", cfg!(feature = "peer-papaya")),
        ("scc", cfg!(feature = "peer-scc")),
        ("dashmap", cfg!(feature = "peer-dashmap")),
        ("LMDB", cfg!(feature = "peer-lmdb")),
        ("redb", cfg!(feature = "peer-redb")),
    ];
    all.into_iter().filter(|(_, built)| !built).map(|(name, _)| name).collect()
}
