//! How the simulator runs kernels.

/// How the simulator runs kernels: as fast as it can, or as a seed says.
///
/// ```
/// use warpkeep_device::sim::{Mode, Seeded};
///
/// assert_eq!(Mode::default(), Mode::fast());
/// let eager = Mode::Seeded(Seeded { switch_chance: 512, ..Seeded::new(1) });
/// assert_ne!(eager, Mode::seeded(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// On all cores, unchecked by default: to get work done.
    Fast(Fast),
    /// On one thread, checked, weak and the same every time: to find mistakes.
    Seeded(Seeded),
}

impl Mode {
    /// Fast, with the defaults.
    pub fn fast() -> Self {
        Self::Fast(Fast::default())
    }

    /// Seeded, with the defaults.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Seeded::new(seed))
    }
}

impl Default for Mode {
    fn default() -> Self {
        Self::fast()
    }
}

/// Options of [`Mode::Fast`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fast {
    /// Threads that run blocks; 0 for as many as there are cores.
    pub workers: u32,
    /// Whether every access is checked against the registered memory. Costs most of the speed.
    pub check_memory: bool,
    /// Blocks that each worker runs at the same time if they take long: those that wait for each other need several.
    pub resident_blocks: u32,
    /// Operations a lane may do before it counts as running away.
    pub step_limit: u64,
}

impl Default for Fast {
    fn default() -> Self {
        Self { workers: 0, check_memory: false, resident_blocks: 8, step_limit: 1 << 26 }
    }
}

/// Options of [`Mode::Seeded`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    /// Decides everything that is open: who runs when, and which store moves on when.
    pub seed: u64,
    /// How often, out of 1024, a lane is interrupted at a memory operation.
    pub switch_chance: u32,
    /// How often, out of 1024, a store moves on at a step; 0 to draw the pace for each launch from the seed.
    pub drain_chance: u32,
    /// Whether stores take their time.
    pub delay_stores: bool,
    /// Whether weak loads may give what was there before. If neither, memory is sequentially consistent.
    pub stale_loads: bool,
    /// The power goes when this many steps are done: memory operations and ends of launches, of all launches together.
    pub crash_at: Option<u64>,
    /// Blocks that run at the same time.
    pub resident_blocks: u32,
    /// Operations a lane may do before it counts as running away.
    pub step_limit: u64,
    /// Whether every step is kept for [`Simulator::take_trace`](super::Simulator::take_trace).
    pub trace: bool,
}

impl Seeded {
    /// The defaults, with this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            switch_chance: 256,
            drain_chance: 0,
            delay_stores: true,
            stale_loads: true,
            crash_at: None,
            resident_blocks: 4,
            step_limit: 1 << 22,
            trace: false,
        }
    }
}
