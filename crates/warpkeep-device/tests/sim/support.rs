//! Kernels, buffers and launches of the tests.

use std::ffi::c_void;
use std::io::Write as _;

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_device::sim::{
    Contents, Fast, Grid, Memory, Mode, RegionId, RunReport, Seeded, SimError, Simulator,
};

macro_rules! kernels {
    ($($name:ident as $symbol:ident),* $(,)?) => {
        #[link(name = "warpkeep_test_kernels", kind = "static")]
        unsafe extern "C" {
            $(fn $symbol(params: *const c_void);)*
        }
        $(
            #[allow(non_upper_case_globals, reason = "named as in the source")]
            pub(crate) const $name: Kernel = Kernel { name: stringify!($name), entry: $symbol };
        )*
    };
}

kernels! {
    collectives_block as wk_sim_collectives_block,
    collectives_masks as wk_sim_collectives_masks,
    collectives_tile4 as wk_sim_collectives_tile4,
    collectives_tile8 as wk_sim_collectives_tile8,
    collectives_tile16 as wk_sim_collectives_tile16,
    collectives_tile32 as wk_sim_collectives_tile32,
    every_function as wk_sim_every_function,
    fault_assertion as wk_sim_fault_assertion,
    fault_barrier as wk_sim_fault_barrier,
    fault_deadlock as wk_sim_fault_deadlock,
    fault_diverged as wk_sim_fault_diverged,
    fault_lane_gone as wk_sim_fault_lane_gone,
    fault_misaligned as wk_sim_fault_misaligned,
    fault_out_of_bounds as wk_sim_fault_out_of_bounds,
    fault_outside_mask as wk_sim_fault_outside_mask,
    fault_read_only as wk_sim_fault_read_only,
    fault_runaway as wk_sim_fault_runaway,
    fault_runaway_collective as wk_sim_fault_runaway_collective,
    fault_shared_index as wk_sim_fault_shared_index,
    fault_shared_misaligned as wk_sim_fault_shared_misaligned,
    fault_shared_uninitialised as wk_sim_fault_shared_uninitialised,
    fault_two_barriers as wk_sim_fault_two_barriers,
    fault_two_places as wk_sim_fault_two_places,
    fault_uninitialised as wk_sim_fault_uninitialised,
    publish_across as wk_sim_publish_across,
    publish_count as wk_sim_publish_count,
    publish_for_warp as wk_sim_publish_for_warp,
    publish_grid_barrier as wk_sim_publish_grid_barrier,
    publish_records as wk_sim_publish_records,
    publish_relay as wk_sim_publish_relay,
    publish_wide as wk_sim_publish_wide,
    table_find as wk_sim_table_find,
    table_insert as wk_sim_table_insert,
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    entry: unsafe extern "C" fn(*const c_void),
}

/// `tests/kernels/faults.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct FaultParams {
    pub(crate) data: u64,
    pub(crate) count: u64,
}

/// `tests/kernels/publish.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct PublishParams {
    pub(crate) data: u64,
    pub(crate) flags: u64,
    pub(crate) seen: u64,
    pub(crate) between: u32,
    pub(crate) rounds: u32,
}

/// What stands between data and flag in `publish.h`.
pub(crate) mod between {
    pub(crate) const NOTHING: u32 = 0;
    pub(crate) const BLOCK_FENCE: u32 = 1;
    pub(crate) const DEVICE_FENCE: u32 = 2;
    pub(crate) const SYSTEM_FENCE: u32 = 3;
    pub(crate) const BLOCK_RELEASE: u32 = 4;
    pub(crate) const DEVICE_RELEASE: u32 = 5;
    pub(crate) const BALLOT_ONLY: u32 = 6;
    pub(crate) const RELAXED_READER: u32 = 7;
}

#[repr(C, align(16))]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Pair([u64; 2]);

/// Memory that kernels may use, of 8-byte words aligned to 16 bytes. It is not registered by itself.
pub(crate) struct Words(Vec<Pair>);

impl Words {
    pub(crate) fn new(words: usize) -> Self {
        Self(vec![Pair([0, 0]); words.div_ceil(2)])
    }

    pub(crate) fn from(words: &[u64]) -> Self {
        let mut made = Self::new(words.len());
        made.as_mut()[..words.len()].copy_from_slice(words);
        made
    }

    pub(crate) fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    pub(crate) fn as_ref(&self) -> &[u64] {
        bytemuck::cast_slice(&self.0)
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u64] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(self.0.as_slice()) as u64
    }

    pub(crate) fn register(&mut self, simulator: &Simulator, kind: Memory, contents: Contents) -> RegionId {
        simulator
            .register(self.address(), self.bytes(), kind, contents)
            .expect("fresh memory overlaps nothing")
    }

    /// Registered as a buffer of the device that was written.
    pub(crate) fn on(mut self, simulator: &Simulator) -> Self {
        self.register(simulator, Memory::Device, Contents::Written);
        self
    }
}

pub(crate) fn grid(blocks: u32, threads: u32) -> Grid {
    Grid { blocks, threads, shared_bytes: 0 }
}

/// Launches a kernel whose parameters reach only memory that the caller holds.
pub(crate) fn launch<P: NoUninit>(
    simulator: &Simulator,
    kernel: Kernel,
    grid: Grid,
    params: &P,
) -> Result<RunReport, SimError> {
    // SAFETY: the tests pass addresses of `Words` that outlive the call, and the struct that the kernel takes.
    unsafe { simulator.launch(kernel.name, kernel.entry, grid, bytemuck::bytes_of(params)) }
}

/// Fast on two threads, seeded with two seeds, and fast with checks.
pub(crate) fn modes() -> Vec<Mode> {
    vec![
        Mode::Fast(Fast { workers: 2, ..Fast::default() }),
        Mode::Fast(Fast { workers: 2, check_memory: true, resident_blocks: 1, ..Fast::default() }),
        Mode::seeded(1),
        Mode::seeded(2),
        Mode::Seeded(Seeded { delay_stores: false, stale_loads: false, ..Seeded::new(3) }),
    ]
}

/// The line of a kernel source that has this remark.
pub(crate) fn line_of(source: &str, remark: &str) -> u32 {
    let found = source.lines().position(|line| line.ends_with(remark));
    found.expect("the remark is in the source") as u32 + 1
}

/// A line for the report of all tests.
pub(crate) fn tell(line: &str) {
    writeln!(std::io::stdout().lock(), "sim: {line}").expect("standard output");
}

/// Numbers that are the same every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
