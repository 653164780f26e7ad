//! What kernels are compiled for.

use std::fmt;
use std::str::FromStr;

use crate::error::{DeviceError, Result};

/// A GPU architecture, by its compute capability: `sm_90` is 9.0.
///
/// ```
/// use warpkeep_device::Arch;
///
/// let hopper: Arch = "sm_90".parse()?;
/// assert_eq!(hopper, Arch::new(9, 0));
/// assert_eq!(Arch::new(12, 0).to_string(), "sm_120");
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    major: u32,
    minor: u32,
}

impl Arch {
    /// The architecture of this compute capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Before the point of the compute capability.
    pub const fn major(self) -> u32 {
        self.major
    }

    /// After it.
    pub const fn minor(self) -> u32 {
        self.minor
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)
    }
}

impl FromStr for Arch {
    type Err = DeviceError;

    fn from_str(given: &str) -> Result<Self> {
        let wrong = || DeviceError::UnknownArch { given: given.to_owned() };
        let digits = given.strip_prefix("sm_").ok_or_else(wrong)?;
        // The last digit is the minor number, so "sm_9" alone says nothing.
        if !(2..=3).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u32 = digits.parse().map_err(|_| wrong())?;
        Ok(Self { major: number / 10, minor: number % 10 })
    }
}
