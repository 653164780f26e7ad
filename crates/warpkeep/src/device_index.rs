//! Which part of its tables' indexes a device holds.

/// Which part of a table's index the device holds in its own memory, beside the image:
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
    /// Nothing: kernels read buckets in the image.
    InImage,
    /// Where the record of every key lies, for packed tables of rows: gets look at one line in device memory and fetch the value. Where the
    /// device's memory does not suffice, and for other tables, kernels read buckets in the image.
    #[default]
    Mirrored,
}
