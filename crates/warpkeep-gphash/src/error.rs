//! What can go wrong with a table.

use warpkeep_core::CoreError;
use warpkeep_image::ImageError;

/// Why a table could not be created, opened or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not a geometry.
    #[error(
        "{levels} levels x {hashes} hashes x {slots} slots is no geometry; the product must be 32, such as 2L-2H-8S"
    )]
    Geometry {
        /// The requested number of levels.
        levels: u8,
        /// The requested number of hash locations.
        hashes: u8,
        /// The requested number of slots per bucket.
        slots: u8,
    },

    /// Not a geometry in words.
    #[error("'{text}' is no geometry; write it like 2L-2H-8S")]
    GeometryText {
        /// What was given.
        text: String,
    },

    /// Not a layout in words.
    #[error("'{text}' is no layout; write packed or in-place")]
    LayoutText {
        /// What was given.
        text: String,
    },

    /// A layout that cannot hold such keys.
    #[error(
        "the {layout} layout cannot hold {key} keys; it takes u64 and fixed ones, the packed layout takes all"
    )]
    Layout {
        /// The layout.
        layout: crate::Layout,
        /// What keys are.
        key: warpkeep_core::KeySpec,
    },

    /// A table that no device can work.
    #[error(
        "a device cannot work a table of {key} keys and {value} values, only such of fixed length, or with keys in cells; use the cpu for it"
    )]
    NotForDevices {
        /// What keys are.
        key: warpkeep_core::KeySpec,
        /// What values are.
        value: warpkeep_core::ValueSpec,
    },

    /// A batch with more operations than kernels can number.
    #[error("a device does up to {most} operations at a time, the batch has {count}; cut it into several")]
    BatchTooLarge {
        /// Operations of the batch.
        count: u64,
        /// Operations that a batch may have.
        most: u64,
    },

    /// A device profile that could not be written.
    #[error("the device profile {} cannot be written: {source}; make its folder writable, or set WARPKEEP_CACHE to another", path.display())]
    SaveProfile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },

    /// A device profile that makes no sense.
    #[error("the device profile {} cannot be used: {problem}; correct it, or delete the file to have the usual values", path.display())]
    DeviceProfile {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// The parts of an image are not in one piece on the device.
    #[error(
        "the image has grown, and the device does not have it in one piece; close the store and open it again"
    )]
    Scattered,

    /// Of the device.
    #[error(transparent)]
    Device(#[from] warpkeep_device::DeviceError),

    /// The cuckoo index of a table on a device failed.
    #[error(transparent)]
    CuckooIndex(warpkeep_containers::ContainerError),

    /// Of the image.
    #[error(transparent)]
    Image(#[from] ImageError),

    /// A key or value that does not go with the table.
    #[error(transparent)]
    Core(#[from] CoreError),

    /// No slot for an item, although the table is not full: too many keys with the same hash.
    #[error(
        "no place is left for this key: too many keys share its hash locations; if they are not hostile, create the \
         table with more capacity or another geometry"
    )]
    Full,
}
