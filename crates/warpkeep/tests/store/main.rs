//! Stores as programs use them, worked by the CPU.

mod attributes;
mod backup;
mod cells;
mod checked;
#[path = "../common/form.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod form;
mod handles;
#[path = "../common/in_log.rs"]
mod in_log;
mod indexes;
mod last_image;
mod log_space;
mod merge;
mod owed;
mod power;
mod progress;
mod read_only;
mod reclamation;
mod space;
mod tables;
mod typed;
mod verify;
