//! The device for the tables of a store that a command opens.

use clap::Args;
use warpkeep::{DeviceChoice, DeviceIndex, DeviceValues, HostGetStrategy};
use warpkeep_bench::size::Size;

use super::StoreAt;

/// The device for the tables.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Worked {
    /// The device for the tables: cpu, cuda:0 and so on, or sim. See `warpkeep info --help`.
    #[arg(long, value_name = "DEVICE", default_value_t, help_heading = DEVICE)]
    pub(crate) device: DeviceChoice,
    /// The index in the device's memory: full, cuckoo or in-image.
    #[arg(long, value_name = "INDEX", value_parser = index, help_heading = DEVICE)]
    pub(crate) device_index: Option<DeviceIndex>,
    /// Keep the values that are requested most on the device.
    #[arg(long, value_name = "SIZE|%", value_parser = values, help_heading = DEVICE)]
    pub(crate) value_cache: Option<DeviceValues>,
    /// How a device does batches of gets: cpu, gather or split.
    #[arg(long, value_name = "STRATEGY", help_heading = DEVICE)]
    pub(crate) host_gets: Option<HostGetStrategy>,
    /// Threads for one large batch; 0 for as many as suit.
    #[arg(long, value_name = "COUNT", default_value_t, help_heading = DEVICE)]
    pub(crate) batch_threads: usize,
}

/// The heading of these options.
const DEVICE: &str = "Device";

/// Their meaning, explained once, by `warpkeep info --help`.
pub(crate) const DEVICES: &str = "\
Options about devices, which many commands have:
  --device DEVICE       What works gphash tables: cpu, cuda:0 and so on, or sim, a slow simulator of a GPU. A device writes
                        those whose values have one length, with fixed keys or keys up to 63 bytes, and reads other packed
                        ones. Batches too small for a GPU, and turbohash tables, are done by the CPU.
  --device-index INDEX  The index in the device's memory: full (of the tables that it writes; the default), cuckoo (as full,
                        and for the tables that it only reads an index of signatures, as in Mega-KV), or in-image (none).
  --value-cache SIZE|%  Keep the values that are asked for most in the device's memory: those of a share of a table's items,
                        such as 20%, or as many as a number of bytes hold, such as 8G.
  --host-gets STRATEGY  How batches of gets are done: cpu; gather (the device locates the records, the CPU copies the values);
                        or split (the device copies some and the CPU copies the others, to memory that the device reaches;
                        elsewhere gather). If not given, the size of the batch and the thresholds of the device decide,
                        which `warpkeep info` shows.
  --batch-threads COUNT Threads that work on one large batch at a time; 0 for one a core, less one where there are eight or
                        more.";

/// An index in a device's memory.
fn index(text: &str) -> Result<DeviceIndex, String> {
    match text.trim() {
        "in-image" => Ok(DeviceIndex::InImage),
        "full" => Ok(DeviceIndex::Full),
        "cuckoo" => Ok(DeviceIndex::Cuckoo),
        _ => Err("give full, cuckoo or in-image".to_owned()),
    }
}

/// A share in per cent, or a number of bytes.
fn values(text: &str) -> Result<DeviceValues, String> {
    match text.trim().strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(DeviceValues::Share(percent / 100.0)),
            _ => Err("give 0% to 100%, or bytes such as 8G".to_owned()),
        },
        None => text.parse().map(|Size(bytes)| DeviceValues::Bytes(bytes)),
    }
}

impl Worked {
    /// Which values it keeps.
    fn values(self) -> DeviceValues {
        self.value_cache.unwrap_or_default()
    }
}

impl StoreAt {
    /// The same store, worked like this.
    pub(crate) fn on(&self, worked: Worked) -> StoreAt {
        StoreAt {
            device: worked.device,
            device_index: worked.device_index.unwrap_or_default(),
            device_values: worked.values(),
            host_gets: worked.host_gets,
            threads: worked.batch_threads,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_have_names() {
        assert_eq!(index("full"), Ok(DeviceIndex::default()));
        assert_eq!(index("cuckoo"), Ok(DeviceIndex::Cuckoo));
        assert_eq!(index("in-image"), Ok(DeviceIndex::InImage));
        assert!(index("none").is_err());
    }

    #[test]
    fn value_caches_are_shares_or_bytes() {
        assert_eq!(values("20%"), Ok(DeviceValues::Share(0.2)));
        assert_eq!(values("64M"), Ok(DeviceValues::Bytes(64 << 20)));
        for wrong in ["101%", "-1%", "much", "%", ""] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }
}
