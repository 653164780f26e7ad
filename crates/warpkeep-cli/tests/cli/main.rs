//! The real binary, run as people run it.

mod bench;
mod demo;
mod help;
mod look;
mod repair;
mod shop;
