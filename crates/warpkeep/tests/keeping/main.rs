//! A store keeps its contents in all circumstances: against a plain map, killed, damaged, without space, and
//! written by earlier programs.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod golden;
mod golden_stores;
mod golden_tables;
mod keeper;
mod torture;
