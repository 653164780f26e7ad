//! Parameters of the kernels of samples: `kernels/graph_sample.h` and `kernels/graph_number.h`.

use bytemuck::NoUninit;
use warpkeep_device::DevicePtr;

use super::kernels::GraphRef;

/// `graph_sampling::Choose`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Choose {
    pub(super) graph: GraphRef,
    pub(super) vertices: DevicePtr,
    pub(super) seed_times: DevicePtr,
    pub(super) batch: DevicePtr,
    pub(super) room: DevicePtr,
    pub(super) counts: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) places: DevicePtr,
    pub(super) keys: DevicePtr,
    pub(super) rows: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
    pub(super) total: DevicePtr,
    pub(super) count: u64,
    pub(super) seed: u64,
    pub(super) hop: u64,
    pub(super) window: u64,
    pub(super) first_row: u64,
    pub(super) most: u32,
    pub(super) pick: u32,
    pub(super) replaces: u32,
    pub(super) is_strict: u32,
    pub(super) has_window: u32,
    pub(super) places_end: u32,
}

/// `graph_numbers::Number`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Number {
    pub(super) vertices: DevicePtr,
    pub(super) count: u64,
    pub(super) end: DevicePtr,
    pub(super) slots: DevicePtr,
    pub(super) smallest: DevicePtr,
    pub(super) owners: DevicePtr,
    pub(super) rows: DevicePtr,
    pub(super) places: DevicePtr,
    pub(super) firsts: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) renumbered: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) found_owners: DevicePtr,
    pub(super) totals: DevicePtr,
    pub(super) given: DevicePtr,
    pub(super) base: u64,
    pub(super) table_bits: u64,
    pub(super) pads: u64,
}
