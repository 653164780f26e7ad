//! The log from outside, over a disk in memory that can be torn, cut off and filled up.

mod basics;
mod concurrency;
mod damage;
mod full_disk;
mod gap;
mod history;
mod laid;
mod manifest;
mod mem_disk;
mod oracle;
mod os_disk;
mod power_cut;
mod reserve;
