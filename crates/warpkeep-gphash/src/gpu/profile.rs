//! The device profile: the thresholds that decide how a batch runs.
//!
//! With one profile a batch of a given size always runs the same way, so that its latency does not depend on earlier
//! batches. The default values were measured on an H200 with 16 host cores. A file beside the cache of compiled
//! kernels overrides them for one device; see [`DeviceProfile::of`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use warpkeep_device::{DeviceChoice, DeviceInfo, KernelCache};

use crate::TableError;

/// Threads that publish words, at most, the caller's included. Sixteen cores are about as fast as the link delivers
/// records.
const MOST_THREADS: usize = 16;
/// Cores from which on the host publishes words by default: with fewer the device is faster.
const LEAST_CORES: usize = 8;
/// The largest batch that is scattered: buckets of fixed capacity take more memory than a sorted list.
const MOST_SCATTERED: usize = 1 << 20;
/// Chunks of a batch, at least, where the host publishes the words and there is more than one.
const LEAST_CHUNKS: u64 = 4;
/// Chunks of a batch, at most: more chunks hardly overlap more.
const MOST_CHUNKS: u64 = super::write::params::MOST_CHUNKS as u64;

/// Who publishes the slot words of fused writes that have several chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishBy {
    /// The device, over the link.
    Device,
    /// The host, with this many threads.
    Host(usize),
}

impl PublishBy {
    /// The default for this machine.
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

/// Declares the profile, and its text form with a line for each field.
macro_rules! profile {
    ($($(#[$about:meta])* $field:ident: $kind:ty = $usual:expr),* $(,)?) => {
        /// The thresholds that decide how a batch runs.
        ///
        /// Its text form has a line for each field, such as `ordered_from = 1024`; lines that begin with `#` are
        /// comments.
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
    /// Gets in device memory: keys from which on values are fetched in address order. Over the link that is ten times
    /// as fast, but takes a few more launches.
    ordered_from: usize = 1 << 10,
    /// Keys up to which an ordered batch is scattered to buckets of address ranges instead of sorted: three launches
    /// instead of six. At most a million; 0 for none.
    scattered_to: usize = 1 << 14,
    /// Records to fetch from which on a sorted batch is fetched without SM affinity. Below, each multiprocessor
    /// fetches the address ranges that are assigned to it, whose translations it has cached.
    unassigned_from: u64 = 1 << 20,
    /// Keys up to which a batch without values, which only finds out which keys exist, takes one launch instead of two.
    located_at_once_to: usize = 1 << 15,
    /// Gets from host memory: keys from which on the device locates records. Below, the CPU is done before a kernel
    /// would have started.
    gathered_from: usize = 1 << 9,
    /// Writes from host memory: operations from which on the device does them.
    written_from: usize = 1 << 9,
    /// Of these, operations from which on a batch of one kind is a fused write. Fewer are written in two phases, which
    /// take fewer launches.
    fused_from: usize = 1 << 11,
    /// Keys from which on the device fetches a share of the values itself, where it reaches the destination.
    shared_from: usize = 1 << 18,
    /// The share of the keys of such a batch that the device fetches, from 0 to 1.
    device_share: f64 = 0.4,
    /// Bytes of values from which on the host's copies bypass its caches.
    streamed_from_bytes: usize = 32 << 20,
    /// Fused writes: operations of a chunk. The link takes a hundred microseconds for the records of a chunk.
    chunk_operations: u64 = 1 << 15,
    /// Who publishes the slot words where a batch has several chunks.
    publish_by: PublishBy = PublishBy::usual(),
}

/// How a batch of gets in device memory runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GetStrategy {
    /// One launch locates keys and fetches values in key order.
    Fused,
    /// Keys are located; no values are wanted.
    Locate,
    /// Records are scattered to buckets of address ranges, and fetched with SM affinity.
    Scattered,
    /// Records are partitioned by address range, and fetched with SM affinity if they are few enough.
    Sorted {
        /// Records from which on they are fetched without SM affinity.
        unassigned_from: u64,
    },
}

impl DeviceProfile {
    /// The profile of a device: from its file, if there is one, with default values for fields that the file does not
    /// have. The file is `profiles/NAME` in the folder that has the cache of compiled kernels, `~/.cache/warpkeep` or
    /// `$WARPKEEP_CACHE`; see [`file_of`](DeviceProfile::file_of).
    pub fn of(device: &DeviceInfo) -> Result<DeviceProfile, TableError> {
        if device.choice == DeviceChoice::Sim {
            return Ok(DeviceProfile::simulated());
        }
        match DeviceProfile::file_of(&device.name) {
            Some(path) => DeviceProfile::read(&path),
            None => Ok(DeviceProfile::default()),
        }
    }

    /// The path of the profile of a device of this name; `None` if there is no cache.
    pub fn file_of(device: &str) -> Option<PathBuf> {
        let plain =
            |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let name: String = device.chars().map(plain).collect();
        let cache = KernelCache::from_environment();
        Some(cache.folder()?.parent()?.join("profiles").join(name))
    }

    /// The profile in a file; the default values if there is no such file.
    fn read(path: &Path) -> Result<DeviceProfile, TableError> {
        let error = |problem: String| TableError::DeviceProfile { path: path.to_owned(), problem };
        match std::fs::read_to_string(path) {
            Ok(text) => text.parse().map_err(error),
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => Ok(DeviceProfile::default()),
            Err(other) => Err(error(other.to_string())),
        }
    }

    /// Writes the profile to the [file](DeviceProfile::file_of) of a device, which engines opened later read, and gives
    /// its path. The file is replaced as a whole.
    pub fn save(&self, device: &DeviceInfo) -> Result<PathBuf, TableError> {
        let path = DeviceProfile::file_of(&device.name).ok_or_else(|| TableError::SaveProfile {
            path: PathBuf::from("profiles"),
            source: std::io::Error::new(std::io::ErrorKind::NotFound, "there is no cache folder"),
        })?;
        self.write(&path, &device.name)?;
        Ok(path)
    }

    fn write(&self, path: &Path, device: &str) -> Result<(), TableError> {
        let write = || {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            let draft = path.with_extension(format!("{}.new", std::process::id()));
            std::fs::write(&draft, format!("# {device}, measured by `warpkeep bench profile`\n{self}"))?;
            std::fs::rename(&draft, path)
        };
        write().map_err(|source| TableError::SaveProfile { path: path.to_owned(), source })
    }

    /// The simulator has no link, and its batches are small: most of them use one launch, and all from host memory
    /// use the device.
    fn simulated() -> DeviceProfile {
        DeviceProfile {
            ordered_from: 1 << 16,
            gathered_from: 0,
            written_from: 0,
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

    /// Keys that the device fetches of a batch that is split with the host: whole warps.
    pub(super) fn device_keys(&self, keys: usize) -> usize {
        const WARP: usize = 32;
        ((keys as f64 * self.device_share.clamp(0.0, 1.0)) as usize).next_multiple_of(WARP).min(keys)
    }

    /// The number of chunks of a fused write. Where the device publishes the words each chunk is a launch, so there
    /// are fewer. Where the host does, there are at least a few, because it begins when the first chunk is complete.
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

    /// Operations from which on a fused write sends its first chunks while the rest is decided: smaller batches are
    /// decided quickly.
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
    fn get_strategy_depends_on_batch_size() {
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
        assert_eq!(wide.gets(2 << 20, true), sorted, "buckets for this many keys take too much memory");
    }

    #[test]
    fn chunks_grow_with_the_batch_up_to_a_limit() {
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
    fn device_share_is_whole_warps() {
        let profile = DeviceProfile::default();
        assert_eq!([0, 1, 31, 100, 1000].map(|keys| profile.device_keys(keys)), [0, 0, 31, 64, 416]);
        let all = DeviceProfile { device_share: 7.0, ..profile };
        assert_eq!(
            [all.device_keys(1000), DeviceProfile { device_share: 0.0, ..all }.device_keys(9)],
            [1000, 0]
        );
    }

    #[test]
    fn files_override_fields_and_invalid_lines_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        assert_eq!(DeviceProfile::read(&path).unwrap(), DeviceProfile::default());
        std::fs::write(&path, "# measured\n\npublish_by = host:3\n shared_from=9 \n").unwrap();
        let expected =
            DeviceProfile { publish_by: PublishBy::Host(3), shared_from: 9, ..DeviceProfile::default() };
        assert_eq!(DeviceProfile::read(&path).unwrap(), expected);
        assert_eq!(expected.to_string().parse(), Ok(expected));
        expected.write(&path, "a device").unwrap();
        assert_eq!(DeviceProfile::read(&path).unwrap(), expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        let error = expected.write(&path.join("below"), "a device").unwrap_err().to_string();
        assert!(error.contains("make its folder writable"), "{error}");
        for (text, expected) in [
            ("ordered_from", "line 1 is not"),
            ("\nfast = 1", "no field `fast`"),
            ("ordered_from = many", "ordered_from"),
            ("publish_by = host:0", "host:8"),
            ("device_share = 1.5", "from 0 to 1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = DeviceProfile::read(&path).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("delete the file"), "{error}");
        }
    }
}
