//! Stores as programs use them, worked by the CPU.

mod backup;
mod cells;
mod indexes;
mod merge;
mod tables;
mod typed;
mod verify;
