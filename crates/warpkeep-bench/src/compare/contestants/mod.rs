//! The contestants, and their requirements.

mod alone;
#[cfg(feature = "peer-dashmap")]
mod dashmap;
#[cfg(feature = "peer-fjall")]
mod fjall;
pub(crate) mod limit;
#[cfg(feature = "peer-lmdb")]
mod lmdb;
#[cfg(any(feature = "peer-papaya", feature = "peer-scc", feature = "peer-dashmap"))]
mod map;
#[cfg(feature = "peer-papaya")]
mod papaya;
#[cfg(feature = "peer-redb")]
mod redb;
#[cfg(feature = "peer-rocksdb")]
mod rocksdb;
#[cfg(feature = "peer-scc")]
mod scc;
#[cfg(any(feature = "peer-lmdb", feature = "peer-redb", feature = "peer-fjall", feature = "peer-rocksdb"))]
mod tree;
pub(crate) mod warpkeep;

use ::warpkeep::{DeviceChoice, Geometry, IndexKind};

use super::Promise;
use super::contestant::Contestant;
use crate::BenchError;
use crate::scratch::Scratch;
use crate::workload::Workload;

/// The names that goals are about.
pub(crate) const WARPKEEP: &str = "warpkeep";
pub(crate) const WARPKEEP_WITHOUT_LOG: &str = "warpkeep without log";
pub(crate) const TURBOHASH: &str = "turbohash";
pub(crate) const ALONE: &str = "the workload alone";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const DASHMAP: &str = "dashmap";
pub(crate) const DASHMAP_LOGGED: &str = "dashmap + log";
pub(crate) const MAPS: [&str; 3] = ["papaya", "scc", DASHMAP];
pub(crate) const TREES: [&str; 4] = ["LMDB", "redb", "fjall", "RocksDB"];

/// The setup of a contestant.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) workload: Workload,
    pub(crate) scratch: &'a Scratch,
    pub(crate) geometry: Geometry,
    pub(crate) device: DeviceChoice,
    pub(crate) promise: Promise,
}

impl Setup<'_> {
    /// A directory for the files of a peer: where the image lies, or on the disk if they must survive the machine.
    #[cfg(any(
        feature = "peer-lmdb",
        feature = "peer-redb",
        feature = "peer-fjall",
        feature = "peer-rocksdb"
    ))]
    fn peer_directory(&self, name: &str) -> Result<std::path::PathBuf, BenchError> {
        let path = match self.promise {
            Promise::NoLog | Promise::Process => self.scratch.images().join(name),
            Promise::Power => self.scratch.disk().join(name),
        };
        std::fs::create_dir_all(&path).map_err(BenchError::io(format!("make {}", path.display())))?;
        Ok(path)
    }
}

type Open = fn(&Setup<'_>) -> Result<Box<dyn Contestant>, BenchError>;

/// A possible contestant.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    /// Memory it takes once it is loaded, files in memory included.
    pub(crate) memory: u64,
    /// Of that, the part in the image's directory.
    pub(crate) image: u64,
    pub(crate) open: Open,
}

/// All contestants in this build that support such keys and values and that durability, ourselves first.
pub(crate) fn entrants(workload: &Workload, promise: Promise) -> Vec<Entrant> {
    let image = warpkeep::image_bytes(workload);
    let array = limit::array_bytes(workload);
    let ours = |name, with_log: Open| entrant(name, image, image, with_log);
    let logged = ours(WARPKEEP, |setup| Ok(Box::new(warpkeep::Warpkeep::open(setup, true)?)));
    let without_log =
        ours(WARPKEEP_WITHOUT_LOG, |setup| Ok(Box::new(warpkeep::Warpkeep::open(setup, false)?)));
    let turbohash_image = warpkeep::image_bytes_of(IndexKind::TurboHash, workload);
    let turbohash = entrant(TURBOHASH, turbohash_image, turbohash_image, |setup| {
        Ok(Box::new(warpkeep::Warpkeep::open_turbohash(setup)?))
    });
    let alone = entrant(ALONE, 0, 0, |setup| Ok(Box::new(alone::Alone { workload: setup.workload })));
    let memory = entrant(MEMORY, array, array, limit::open);
    #[allow(unused_mut, reason = "there may be no peers")]
    let mut entrants = match promise {
        Promise::NoLog => vec![without_log, alone, memory, turbohash],
        Promise::Process | Promise::Power => vec![logged, alone, memory, without_log, turbohash],
    };
    #[cfg(any(feature = "peer-papaya", feature = "peer-scc", feature = "peer-dashmap"))]
    if map::has_sizes(workload) {
        add_maps(workload, promise, &mut entrants);
    }
    #[cfg(feature = "peer-lmdb")]
    {
        let file = lmdb::file_bytes(workload);
        entrants.push(entrant(TREES[0], file, file, lmdb::open));
    }
    #[cfg(feature = "peer-redb")]
    {
        let file = redb::file_bytes(workload);
        entrants.push(entrant(TREES[1], file + redb::cache_bytes(workload), file, redb::open));
    }
    #[cfg(feature = "peer-fjall")]
    {
        let file = fjall::file_bytes(workload);
        entrants.push(entrant(TREES[2], file + fjall::cache_bytes(workload), file, fjall::open));
    }
    #[cfg(feature = "peer-rocksdb")]
    {
        let file = rocksdb::file_bytes(workload);
        entrants.push(entrant(TREES[3], file + rocksdb::cache_bytes(workload), file, rocksdb::open));
    }
    entrants
}

/// Adds maps in memory, and one with our log.
#[cfg(any(feature = "peer-papaya", feature = "peer-scc", feature = "peer-dashmap"))]
fn add_maps(workload: &Workload, promise: Promise, maps: &mut Vec<Entrant>) {
    let item = (workload.key_bytes + workload.value_bytes) as u64;
    // An allocation an item, with its head, and a table of pointers that is at most half full.
    #[cfg(feature = "peer-papaya")]
    maps.push(entrant(MAPS[0], workload.items * (item + 16 + 2 * 9), 0, papaya::open));
    // Buckets of 32, sized for three quarters.
    #[cfg(feature = "peer-scc")]
    maps.push(entrant(MAPS[1], workload.items * item * 2, 0, scc::open));
    #[cfg(feature = "peer-dashmap")]
    {
        // A power of two of slots, at most seven eighths full, with a byte of control each.
        let slots = (workload.items * 8 / 7).next_power_of_two();
        maps.push(entrant(DASHMAP, slots * (item + 1), 0, dashmap::open));
        if promise != Promise::NoLog {
            maps.push(entrant(DASHMAP_LOGGED, slots * (item + 1), 0, dashmap::open_logged));
        }
    }
    #[cfg(not(feature = "peer-dashmap"))]
    let _ = promise;
}

/// Why maps do not take part, if they could and do not.
pub(crate) fn maps_left_out(workload: &Workload) -> Option<String> {
    #[cfg(any(feature = "peer-papaya", feature = "peer-scc", feature = "peer-dashmap"))]
    if !map::has_sizes(workload) {
        return Some(format!(
            "maps hold keys and values inline, and are not compiled for keys of {} bytes with values of {}; they were left out",
            workload.key_bytes, workload.value_bytes
        ));
    }
    let _ = workload;
    None
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
        ("fjall", cfg!(feature = "peer-fjall")),
        ("RocksDB", cfg!(feature = "peer-rocksdb")),
    ];
    all.into_iter().filter(|(_, built)| !built).map(|(name, _)| name).collect()
}
