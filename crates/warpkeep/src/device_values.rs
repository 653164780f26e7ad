//! Values that a device keeps beside the indexes of the tables it works.

use warpkeep_gphash::gpu::ValueRoom;

use crate::{DeviceIndex, Error, GetWay, Result, ValuesBy};

/// Which values of a table the device keeps in its own memory, beside its [mirror](DeviceIndex::Mirrored):
/// [`StoreOptions::device_values`](crate::StoreOptions).
///
/// Those are the values of the keys that are asked for most. Which ones is counted until there have been four times as many gets as the
/// table has items; then they are loaded, in the background, and stay there, renewed as items change, until gets find fewer of them than at
/// first, or the table has grown by half: then it is counted again. Where the device's memory does not suffice there are fewer, or none.
///
/// There are none unless it is asked for: memory of a device is rarely the store's alone, and gets of all keys alike gain little.
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
    /// Those of this share of a table's items, from 0 to 1.
    Share(f64),
    /// As many as so many bytes hold, for each table.
    Bytes(u64),
}

impl DeviceValues {
    /// Room for them; `None` if there are to be none.
    pub(crate) fn room(self) -> Option<ValueRoom> {
        match self {
            DeviceValues::Off | DeviceValues::Bytes(0) => None,
            DeviceValues::Share(share) => (share > 0.0).then_some(ValueRoom::Share(share)),
            DeviceValues::Bytes(bytes) => Some(ValueRoom::Bytes(bytes)),
        }
    }
}

/// What a device keeps of tables in its own memory, and how it is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnDevice {
    pub(crate) index: DeviceIndex,
    pub(crate) values: DeviceValues,
    /// How gets from host memory go, if that is not to be chosen.
    pub(crate) get_way: Option<GetWay>,
    /// Who fetches the values of gets in device memory, and with how many threads, if it is the host.
    pub(crate) values_by: ValuesBy,
    pub(crate) threads: usize,
}

impl OnDevice {
    /// Refuses shares that are none.
    pub(crate) fn check(self) -> Result<OnDevice> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let wrong = |share: f64, of: &str| {
            Err(Error::Invalid(format!(
                "a device cannot cache a share of {share} of the {of}; give a number from 0 to 1"
            )))
        };
        match self {
            OnDevice { index: DeviceIndex::Cached(share), .. } if !is_share(share) => wrong(share, "buckets"),
            OnDevice { values: DeviceValues::Share(share), .. } if !is_share(share) => wrong(share, "values"),
            fine => Ok(fine),
        }
    }
}
