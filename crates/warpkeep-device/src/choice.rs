//! The name of a place where an index can run.

use std::fmt;
use std::str::FromStr;

use crate::error::{DeviceError, Result};

/// Where an index runs: the words that people write on a command line.
///
/// ```
/// use warpkeep_device::DeviceChoice;
///
/// assert_eq!("cuda:1".parse::<DeviceChoice>()?, DeviceChoice::Cuda(1));
/// assert_eq!(DeviceChoice::Sim.to_string(), "sim");
/// assert!("gpu".parse::<DeviceChoice>().is_err());
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceChoice {
    /// The machine's own cores, with code written for them. Not a [`Device`](crate::Device): no kernels run there.
    #[default]
    Cpu,
    /// Kernels on the machine's own cores, through the simulator: for tests, not for speed.
    Sim,
    /// The GPU with this number, as CUDA counts them.
    Cuda(u32),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.pad("cpu"),
            Self::Sim => f.pad("sim"),
            Self::Cuda(ordinal) => f.pad(&format!("cuda:{ordinal}")),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    /// Reads `cpu`, `sim`, `cuda` (the first GPU) or `cuda:N`, in any case of letters.
    fn from_str(given: &str) -> Result<Self> {
        let word = given.trim().to_ascii_lowercase();
        match word.as_str() {
            "cpu" => return Ok(Self::Cpu),
            "sim" => return Ok(Self::Sim),
            "cuda" => return Ok(Self::Cuda(0)),
            _ => {}
        }
        // `parse` alone would take "+1".
        let ordinal = word.strip_prefix("cuda:").filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        match ordinal.and_then(|digits| digits.parse().ok()) {
            Some(ordinal) => Ok(Self::Cuda(ordinal)),
            None => Err(DeviceError::UnknownChoice { given: given.to_owned(), available: available() }),
        }
    }
}

/// What could be written instead of a typo, for people.
fn available() -> String {
    let lines: Vec<String> = crate::info::devices()
        .iter()
        .map(|device| match &device.unavailable {
            None => device.choice.to_string(),
            Some(why) => format!("{} (not usable: {why})", device.choice),
        })
        .collect();
    lines.join(", ")
}
