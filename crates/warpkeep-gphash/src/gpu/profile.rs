//! The device profile: the thresholds by which an engine decides how to do a batch.
//!
//! A batch is always done the same way under one profile, so that its latency does not depend on the batches before it. The values are those
//! measured on an H200 with a host of 16 cores. A file beside the cache of compiled kernels overrides them for one device, see
//! [`DeviceProfile::of`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use warpkeep_device::{DeviceChoice, DeviceInfo, KernelCache};

use crate::TableError;

/// Threads that publish words, at the most, the caller's among them. Sixteen cores are about as fast as the link brings records.
const MOST_THREADS: usize = 16;
/// Cores that a host has at least if it is to publish words: with fewer the device is faster.
const LEAST_CORES: usize = 8;
/// The largest batch that can be scattered: each region has a bucket of fixed capacity, which takes more memory than sorting does.
const MOST_SCATTERED: usize = 1 << 20;
/// Chunks of a batch, at the least, where the host publishes the words and there is more than one.
const LEAST_CHUNKS: u64 = 4;
/// Chunks of a batch, at the most: more of them overlap hardly more.
const MOST_CHUNKS: u64 = super::straight::params::MOST_PARTS as u64;

/// Who publishes the words of the index of fused writes that have several chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishBy {
    /// The device, over the link.
    Device,
    /// The host, with this many threads.
    Host(usize),
}

impl PublishBy {
    /// What suits this machine.
    pub fn usual() -> PublishBy {
        match std::thread::available_parallelism().map_or(1, usize::from) {
            cores if cores >= LEAST_CORES => PublishBy::Host(cores.min(MOST_THREADS)),
            _ => PublishBy::Device,
        }
    }
}

impl fmt::Display for PublishBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishBy::Device => f.write_str("device"),
            PublishBy::Host(threads) => write!(f, "host:{threads}"),
        }
    }
}

impl FromStr for PublishBy {
    type Err = String;

    fn from_str(text: &str) -> Result<PublishBy, String> {
        let threads = text.strip_prefix("host:").and_then(|threads| threads.parse().ok());
        match threads.filter(|&threads| threads > 0) {
            Some(threads) => Ok(PublishBy::Host(threads)),
            None if text == "device" => Ok(PublishBy::Device),
            None => Err(format!("`{text}` publishes nothing; give device, or host:8 for eight threads")),
        }
    }
}

/// Declares the profile with its fields, so that text has each of them by its name.
macro_rules! profile {
    ($($(#[$about:meta])* $field:ident: $kind:ty = $usual:expr),* $(,)?) => {
        /// The thresholds by which an engine decides how to do a batch.
        ///
        /// As text it has a line for each field, such as `ordered_from = 1024`; lines that begin with `#` are comments.
        ///
        /// ```
        /// use warpkeep_gphash::gpu::DeviceProfile;
        ///
        /// let mut profile: DeviceProfile = "# of our cluster\nordered_from = 2048".parse()?;
        /// assert_eq!(profile.ordered_from, 2048);
        /// profile.device_share = 0.5;
        /// assert_eq!(profile.to_string().parse(), Ok(profile));
        /// # Ok::<(), String>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct DeviceProfile {
            $($(#[$about])* pub $field: $kind,)*
        }

        impl Default for DeviceProfile {
            fn default() -> DeviceProfile {
                DeviceProfile { $($field: $usual,)* }
            }
        }

        impl DeviceProfile {
            /// Sets a field by its name.
            fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
                    $(stringify!($field) => {
                        self.$field = value.parse().map_err(|error| format!("{name}: {error}"))?;
                    })*
                    _ => return Err(format!("a device profile has no field `{name}`")),
                }
                Ok(())
            }
        }

        impl fmt::Display for DeviceProfile {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(writeln!(f, "{} = {}", stringify!($field), self.$field)?;)*
                Ok(())
            }
        }
    };
}

profile! {
    /// Gets in device memory: keys from which on values are fetched in the order of their addresses. Over the link that is ten times as
    /// fast, and takes a few launches more.
    ordered_from: usize = 1 << 10,
    /// Keys up to which an ordered batch is scattered to buckets of address ranges instead of sorted: three launches instead of six. At most a
    /// million; 0 for none.
    scattered_to: usize = 1 << 14,
    /// Records to fetch from which on a sorted batch is fetched by all multiprocessors alike. Below, each fetches the address ranges that are
    /// assigned to it, whose translations it has cached.
    unassigned_from: u64 = 1 << 20,
    /// Keys up to which a batch that asks only which keys exist takes one launch instead of two.
    located_at_once_to: usize = 1 << 15,
    /// Gets from host memory: keys from which on the device locates records. Below, the CPU is done before a kernel would have begun.
    gathered_from: usize = 1 << 9,
    /// Keys from which on the device fetches a share of the values itself, where it reaches the destination.
    shared_from: usize = 1 << 18,
    /// The share of the keys of such a batch that the device takes, from 0 to 1.
    device_share: f64 = 0.4,
    /// Bytes of values from which on the host writes those that it copies past its caches.
    streamed_from_bytes: usize = 32 << 20,
    /// Fused writes: operations of a chunk. The link takes a hundred microseconds for the records of one.
    chunk_operations: u64 = 1 << 15,
    /// Who publishes the words of the index where a batch has several chunks.
    publish_by: PublishBy = PublishBy::usual(),
}

/// How a batch of gets in device memory is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GetStrategy {
    /// One launch locates keys and fetches values as they come.
    Fused,
    /// Keys are located; no values are wanted.
    Locate,
    /// Records are scattered to buckets of address ranges, and fetched by the multiprocessors that own these.
    Scattered,
    /// Records are partitioned by address range, and fetched by the multiprocessors that own these, or by all alike from this many records on.
    Sorted {
        /// Records from which on all multiprocessors fetch alike.
        unassigned_from: u64,
    },
}

impl DeviceProfile {
    /// The profile of a device: of its file, if there is one, and the usual values for fields that the file does not have. The file is
    /// `profiles/NAME` in the folder that has the cache of compiled kernels, `~/.cache/warpkeep` or `$WARPKEEP_CACHE`; see
    /// [`file_of`](DeviceProfile::file_of).
    pub fn of(device: &DeviceInfo) -> Result<DeviceProfile, TableError> {
        if device.choice == DeviceChoice::Sim {
            return Ok(DeviceProfile::simulated());
        }
        match DeviceProfile::file_of(&device.name) {
            Some(path) => DeviceProfile::read(&path),
            None => Ok(DeviceProfile::default()),
        }
    }

    /// Where the profile of a device of this name is looked for; `None` if there is no cache.
    pub fn file_of(device: &str) -> Option<PathBuf> {
        let plain =
            |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let name: String = device.chars().map(plain).collect();
        let cache = KernelCache::from_environment();
        Some(cache.folder()?.parent()?.join("profiles").join(name))
    }

    /// The profile in a file; the usual values if there is no such file.
    fn read(path: &Path) -> Result<DeviceProfile, TableError> {
        let error = |problem: String| TableError::DeviceProfile { path: path.to_owned(), problem };
        match std::fs::read_to_string(path) {
            Ok(text) => text.parse().map_err(error),
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => Ok(DeviceProfile::default()),
            Err(other) => Err(error(other.to_string())),
        }
    }

    /// The simulator has no link, and its batches are small: most of them are to take the short way, and all of those from host memory the
    /// device's.
    fn simulated() -> DeviceProfile {
        DeviceProfile {
            ordered_from: 1 << 16,
            gathered_from: 0,
            shared_from: usize::MAX,
            ..DeviceProfile::default()
        }
    }

    /// The strategy for a batch of gets in device memory, through the device index.
    pub(super) fn gets(&self, keys: usize, wants_values: bool) -> GetStrategy {
        match wants_values {
            true if keys < self.ordered_from => GetStrategy::Fused,
            true if keys <= self.scattered_to.min(MOST_SCATTERED) => GetStrategy::Scattered,
            true => GetStrategy::Sorted { unassigned_from: self.unassigned_from },
            false if keys <= self.located_at_once_to => GetStrategy::Fused,
            false => GetStrategy::Locate,
        }
    }

    /// How many keys of a batch the device takes that it shares with the host: whole warps.
    pub(super) fn device_keys(&self, keys: usize) -> usize {
        const WARP: usize = 32;
        ((keys as f64 * self.device_share.clamp(0.0, 1.0)) as usize).next_multiple_of(WARP).min(keys)
    }

    /// The chunks of a fused write. Where the device publishes the words each is a launch, so there are fewer. Where the host does, there are
    /// some at least, or it would begin when the device has ended.
    pub(super) fn chunks(&self, operations: u64, by_host: bool) -> u64 {
        let chunk = self.chunk_operations.max(1);
        match by_host {
            true if operations / chunk > 1 => {
                (operations / chunk).clamp(LEAST_CHUNKS.min(operations), MOST_CHUNKS)
            }
            true => 1,
            false => (operations / chunk.saturating_mul(2)).clamp(1, MOST_CHUNKS / 2),
        }
    }

    /// Operations from which on a fused write sends its first chunks while the rest is decided: deciding fewer takes little time.
    pub(super) fn sends_early_from(&self) -> u64 {
        self.chunk_operations.saturating_mul(LEAST_CHUNKS)
    }
}

impl FromStr for DeviceProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceProfile, String> {
        let mut profile = DeviceProfile::default();
        let lines = text.lines().map(str::trim).zip(1..);
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) =
                line.split_once('=').ok_or_else(|| format!("line {number} is not `name = value`"))?;
            profile.set(name.trim(), value.trim()).map_err(|problem| format!("line {number}: {problem}"))?;
        }
        match (0.0..=1.0).contains(&profile.device_share) {
            true => Ok(profile),
            false => Err(format!("device_share is {}, and not from 0 to 1", profile.device_share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strategy_of_gets_follows_from_their_number() {
        let profile = DeviceProfile::default();
        let sorted = GetStrategy::Sorted { unassigned_from: 1 << 20 };
        for (keys, with_values, without) in [
            (0, GetStrategy::Fused, GetStrategy::Fused),
            (1023, GetStrategy::Fused, GetStrategy::Fused),
            (1024, GetStrategy::Scattered, GetStrategy::Fused),
            (1 << 14, GetStrategy::Scattered, GetStrategy::Fused),
            ((1 << 14) + 1, sorted, GetStrategy::Fused),
            ((1 << 15) + 1, sorted, GetStrategy::Locate),
            (usize::MAX, sorted, GetStrategy::Locate),
        ] {
            assert_eq!(
                (profile.gets(keys, true), profile.gets(keys, false)),
                (with_values, without),
                "{keys}"
            );
        }
        let wide = DeviceProfile { scattered_to: usize::MAX, ..profile };
        assert_eq!(wide.gets(2 << 20, true), sorted, "buckets of so many take too much memory");
    }

    #[test]
    fn small_batches_have_one_chunk_and_large_ones_not_too_many() {
        let profile = DeviceProfile::default();
        let chunk = profile.chunk_operations;
        assert_eq!([1, chunk - 1, chunk, 2 * chunk - 1].map(|count| profile.chunks(count, true)), [1; 4]);
        assert_eq!([2 * chunk, 3 * chunk].map(|count| profile.chunks(count, true)), [LEAST_CHUNKS; 2]);
        let large = [1 << 17, 1 << 20, 1 << 22, 1 << 31];
        assert_eq!(large.map(|count| profile.chunks(count, true)), [4, 32, 64, 64]);
        assert_eq!(large.map(|count| profile.chunks(count, false)), [2, 16, 32, 32]);
        let none = DeviceProfile { chunk_operations: 0, ..profile };
        assert_eq!([none.chunks(3, true), none.chunks(7, false)], [3, 3]);
    }

    #[test]
    fn a_share_is_whole_warps() {
        let profile = DeviceProfile::default();
        assert_eq!([0, 1, 31, 100, 1000].map(|keys| profile.device_keys(keys)), [0, 0, 31, 64, 416]);
        let all = DeviceProfile { device_share: 7.0, ..profile };
        assert_eq!(
            [all.device_keys(1000), DeviceProfile { device_share: 0.0, ..all }.device_keys(9)],
            [1000, 0]
        );
    }

    #[test]
    fn files_override_fields_and_nonsense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        assert_eq!(DeviceProfile::read(&path).unwrap(), DeviceProfile::default());
        std::fs::write(&path, "# measured\n\npublish_by = host:3\n shared_from=9 \n").unwrap();
        let expected =
            DeviceProfile { publish_by: PublishBy::Host(3), shared_from: 9, ..DeviceProfile::default() };
        assert_eq!(DeviceProfile::read(&path).unwrap(), expected);
        assert_eq!(expected.to_string().parse(), Ok(expected));
        for (text, told) in [
            ("ordered_from", "line 1 is not"),
            ("\nfast = 1", "no field `fast`"),
            ("ordered_from = many", "ordered_from"),
            ("publish_by = host:0", "host:8"),
            ("device_share = 1.5", "from 0 to 1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = DeviceProfile::read(&path).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("delete the file"), "{error}");
        }
    }
}
