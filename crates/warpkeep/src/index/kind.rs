//! Which index a table has.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::Error;

/// The index of a table; fixed when it is created. `docs/choosing.md` helps to choose.
///
/// ```
/// use warpkeep::IndexKind;
/// assert_eq!("turbohash".parse::<IndexKind>()?, IndexKind::TurboHash);
/// assert_eq!(IndexKind::default().to_string(), "gphash");
/// # Ok::<(), warpkeep::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// Levels of small buckets, for the CPU and for GPUs.
    #[default]
    GpHash,
    /// Shards of 256-byte buckets side by side, for the CPU.
    TurboHash,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [IndexKind; 2] = [IndexKind::GpHash, IndexKind::TurboHash];

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::GpHash => "gphash",
            IndexKind::TurboHash => "turbohash",
        }
    }

    /// As the catalogue and the log keep it.
    pub(crate) fn code(self) -> u8 {
        match self {
            IndexKind::GpHash => 0,
            IndexKind::TurboHash => 1,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The error for a key that has no slot in such a table.
    pub(crate) fn full(self) -> Error {
        match self {
            IndexKind::GpHash => Error::Table(warpkeep_gphash::TableError::Full),
            IndexKind::TurboHash => Error::TurboHash(warpkeep_turbohash::TableError::Full),
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<IndexKind, Error> {
        IndexKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| Error::Invalid(format!("'{text}' is no index; write gphash or turbohash")))
    }
}
