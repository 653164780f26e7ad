//! The store under faults: damaged, cut, foreign, copied and read-only files, full and failing disks, second openers.
//!
//! Each gives a typed error that ends with the next step; nothing committed is lost, and when the fault is undone,
//! or the image rebuilt from the log, everything is back.

mod copies;
mod failing_disk;
mod full_disk;
mod full_store;
mod full_table;
mod image_bytes;
mod log_bytes;
mod openers;
mod read_only;
mod strangers;
mod written;
