//! What a device keeps of tables in its own memory, and how it is used.

use crate::index::ValueBudget;
use crate::{Error, HostGetStrategy, Result};

/// Which part of a table's index the device keeps in its own memory, beside the image:
/// [`StoreOptions::device_index`](crate::StoreOptions).
///
/// ```
/// use warpkeep::{DeviceIndex, StoreOptions};
///
/// // Nothing, so that all device memory is left to others.
/// let options = StoreOptions { device_index: DeviceIndex::InImage, ..StoreOptions::default() };
/// assert_ne!(options.device_index, DeviceIndex::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceIndex {
    /// Nothing: kernels read the index in the image.
    InImage,
    /// All of it: an index in device memory says where the record of every key lies, for packed tables of rows. A get
    /// reads one line of device memory and fetches the value. Where the device's memory does not suffice, and for other
    /// tables, kernels read the index in the image.
    #[default]
    Full,
    /// As `Full`; and for packed tables with keys or values of any length, which devices only read, an index from hashes of
    /// keys to records, as in Mega-KV: eight bytes an item, at a load of 0.9 or less. The device finds the records of a
    /// batch of gets, and the host compares the keys and copies the values. Where the device's memory does not suffice,
    /// kernels read the index in the image.
    Cuckoo,
}

/// Which values of a table the device keeps in its own memory, beside its [index](DeviceIndex::Full):
/// [`StoreOptions::device_values`](crate::StoreOptions).
///
/// Those are the values of the most requested keys. Requests are counted until there have been four times as many
/// gets as the table has items; then the values are loaded, in the background, and stay there, updated as items
/// change. Counting starts again when gets find fewer than three quarters of what they found at first, or when the table
/// has grown by half.
/// If the device's memory does not suffice there are fewer, or none.
///
/// There are none by default: a device's memory is rarely the store's alone, and uniform gets gain little.
///
/// ```
/// use warpkeep::{DeviceValues, StoreOptions};
///
/// // Of a fifth of all items.
/// let options = StoreOptions { device_values: DeviceValues::Share(0.2), ..StoreOptions::default() };
/// assert_ne!(options.device_values, DeviceValues::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum DeviceValues {
    /// None.
    #[default]
    Off,
    /// The values of this share of a table's items, from 0 to 1.
    Share(f64),
    /// As many as fit into this many bytes, for each table.
    Bytes(u64),
}

impl DeviceValues {
    /// The memory for them; `None` if there are to be none.
    pub(crate) fn budget(self) -> Option<ValueBudget> {
        match self {
            DeviceValues::Off | DeviceValues::Bytes(0) => None,
            DeviceValues::Share(share) => (share > 0.0).then_some(ValueBudget::Share(share)),
            DeviceValues::Bytes(bytes) => Some(ValueBudget::Bytes(bytes)),
        }
    }
}

/// What a device keeps of tables in its own memory, and how it is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceOptions {
    pub(crate) index: DeviceIndex,
    pub(crate) values: DeviceValues,
    /// The strategy for gets from host memory; `None` if the device profile decides.
    pub(crate) host_gets: Option<HostGetStrategy>,
}

impl DeviceOptions {
    /// Refuses shares below 0 or above 1.
    pub(crate) fn check(self) -> Result<DeviceOptions> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        match self {
            DeviceOptions { values: DeviceValues::Share(share), .. } if !is_share(share) => {
                Err(Error::Invalid(format!(
                    "a device cannot cache a share of {share} of the values; give a number from 0 to 1"
                )))
            }
            valid => Ok(valid),
        }
    }
}
