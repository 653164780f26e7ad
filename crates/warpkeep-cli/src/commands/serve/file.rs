//! Settings in a TOML file.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use warpkeep_bench::size::Size;

use super::Given;
use crate::failure::Failure;

/// Reads a file of settings.
pub(super) fn read(path: &Path) -> Result<Given, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(Failure::io(format!("read the settings in {}", path.display())))?;
    toml::from_str(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// A size, such as "4GiB".
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Size>, D::Error> {
    text(from)
}

/// A time, such as "50us".
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map(Some).map_err(D::Error::custom)
}

/// Anything that is written as text.
pub(super) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}
