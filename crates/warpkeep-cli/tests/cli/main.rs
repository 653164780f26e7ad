//! The real binary, run as people run it.

mod backup;
mod bench;
mod demo;
mod files;
mod help;
mod interrupted;
mod items;
mod last_image;
mod look;
mod npy;
mod read_only;
mod repair;
mod serve;
mod shop;
mod tables;
