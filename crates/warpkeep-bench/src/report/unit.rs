//! The units of figures.

use serde::Serialize;

use crate::size::Size;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bytes a second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Things a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Things.
    #[serde(rename = "count")]
    Count,
    /// Hundredths of a whole.
    #[serde(rename = "%")]
    Percent,
}

impl Unit {
    /// Its name in CSV.
    pub fn name(self) -> &'static str {
        match self {
            Unit::BytesPerSecond => "bytes/s",
            Unit::PerSecond => "1/s",
            Unit::Micros => "us",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Percent => "%",
        }
    }

    /// A figure for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BytesPerSecond => format!("{} MB/s", digits(value / 1e6)),
            Unit::PerSecond if value.abs() >= 1e6 => format!("{} M/s", digits(value / 1e6)),
            Unit::PerSecond => format!("{}/s", digits(value)),
            Unit::Micros => format!("{} us", digits(value)),
            Unit::Seconds => format!("{value:.3} s"),
            Unit::Bytes => Size(value.round() as u64).to_string(),
            Unit::Count => digits(value),
            Unit::Percent => format!("{}%", digits(value)),
        }
    }
}

/// Three digits, no more behind the point than are meant.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        assert_eq!(Unit::BytesPerSecond.show(1.234e9), "1234 MB/s");
        assert_eq!(Unit::PerSecond.show(1.234e7), "12.3 M/s");
        assert_eq!(Unit::Micros.show(12.34), "12.3 us");
        assert_eq!(Unit::Seconds.show(0.12345), "0.123 s");
        assert_eq!(Unit::Bytes.show(8192.0), "8 KiB");
        assert_eq!(Unit::Count.show(0.0), "0");
    }
}
