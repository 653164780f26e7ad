//! Values that a device holds beside the indexes of its tables.

use warpkeep_gphash::gpu::ValueRoom;

use crate::{DeviceIndex, Error, GetWay, Result};

/// Which values of a table the device keeps in its own memory, beside its [mirror](DeviceIndex::Mirrored):
/// [`StoreOptions::device_values`](crate::StoreOptions).
///
/// Those are the values of the most requested keys. Requests are counted until there have been four times as many
/// gets as the table has items; then the values are loaded, in the background, and stay there, updated as items
/// change, until gets find fewer of them than at first, or the table has grown by half: then counting starts again.
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
    /// Room for them; `None` if there are to be none.
    pub(crate) fn room(self) -> Option<ValueRoom> {
        match self {
            DeviceValues::Off | DeviceValues::Bytes(0) => None,
            DeviceValues::Share(share) => (share > 0.0).then_some(ValueRoom::Share(share)),
            DeviceValues::Bytes(bytes) => Some(ValueRoom::Bytes(bytes)),
        }
    }
}

/// What a device holds of tables in its own memory, and how it is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnDevice {
    pub(crate) index: DeviceIndex,
    pub(crate) values: DeviceValues,
    /// How gets from host memory go, if that is not to be chosen.
    pub(crate) get_way: Option<GetWay>,
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
            OnDevice { values: DeviceValues::Share(share), .. } if !is_share(share) => wrong(share, "values"),
            fine => Ok(fine),
        }
    }
}
