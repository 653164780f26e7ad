//! The failure a write must survive.

use std::fmt;
use std::str::FromStr;

use warpkeep::Durability;

/// The failure a write must survive, for contestants that promise something.
///
/// ```
/// use warpkeep_bench::compare::Promise;
///
/// assert_eq!("power".parse(), Ok(Promise::Power));
/// assert!("fire".parse::<Promise>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing is logged. A store's image survives its process all the same.
    NoLog,
    /// The end of the process.
    Process,
    /// The end of the machine.
    Power,
}

impl Promise {
    /// As the store takes it.
    pub fn durability(self) -> Durability {
        match self {
            Promise::NoLog | Promise::Process => Durability::Process,
            Promise::Power => Durability::Power,
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::NoLog => "none",
            Promise::Process => "process",
            Promise::Power => "power",
        })
    }
}

impl FromStr for Promise {
    type Err = String;

    fn from_str(text: &str) -> Result<Promise, String> {
        match text {
            "none" => Ok(Promise::NoLog),
            "process" => Ok(Promise::Process),
            "power" => Ok(Promise::Power),
            _ => Err(format!(
                "`{text}` is nothing that a write can survive; write process, power, or none for no log"
            )),
        }
    }
}
