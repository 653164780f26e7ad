//! Stores, as commands see them: looked at without changing anything, or opened.

mod at;
mod image_look;
mod log_look;
mod reading;
mod worked;

pub(crate) use at::StoreAt;
pub(crate) use image_look::{ImageLook, ImageReport};
pub(crate) use log_look::{CheckpointReport, LogLook, LogReport, check_is_log};
pub(crate) use reading::Reading;
pub(crate) use worked::{DEVICES, Worked};
