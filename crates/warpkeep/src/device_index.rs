//! What a device keeps of the indexes of the tables it works.

/// What of a table's index the device keeps in its own memory, beside the image: [`StoreOptions::device_index`](crate::StoreOptions).
///
/// ```
/// use warpkeep::{DeviceIndex, StoreOptions};
///
/// // A fifth of all buckets, the ones that are asked for most.
/// let options = StoreOptions { device_index: DeviceIndex::Cached(0.2), ..StoreOptions::default() };
/// assert_ne!(options.device_index, DeviceIndex::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum DeviceIndex {
    /// Nothing: kernels read buckets in the image.
    InImage,
    /// Copies of this share of a table's buckets, from 0 to 1: those asked for most. Which these are is counted; once there have been as many
    /// gets as the table has buckets, the copies are made in the background. They stay what they are, renewed as items change, until there
    /// have been sixteen times as many more, or the table has grown.
    Cached(f64),
    /// Where the record of every key lies, for packed tables of rows: gets look at one line in device memory and fetch the value. Where the
    /// device's memory does not suffice, and for other tables, a fifth of the buckets is cached instead.
    #[default]
    Mirrored,
}
