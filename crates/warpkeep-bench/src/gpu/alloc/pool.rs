//! A pool whose units kernels claim and give back, and what should be in it.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_containers::{SlabAlloc, SlabAllocOptions};
use warpkeep_device::{Buffer, Device, Grid, KernelSet as _, TypedKernel};

use crate::BenchError;
use crate::gpu::Clock;
use crate::kernels::{AllocKernels, AllocParams, MixedParams, SUMS, UNIT_SIZES};
use crate::workload::Dice;

const THREADS: u32 = 128;
const NO_UNIT: u32 = u32::MAX;

/// Lengths of the runs that are claimed, apart from single units.
pub(super) const RUNS: [u32; 3] = [2, 8, 32];

/// Handles of a batch, and what the kernels count.
struct Columns {
    handles: Buffer,
    mistakes: Buffer,
}

impl Columns {
    fn new(device: &Device, count: usize) -> Result<Columns, BenchError> {
        Ok(Columns { handles: device.allocate(4 * count)?, mistakes: device.allocate_zeroed(8 * SUMS)? })
    }

    /// Checks that nothing went wrong.
    fn check(&self, what: &str) -> Result<(), BenchError> {
        match self.mistakes.to_vec::<u64>()?.into_iter().fold(0, u64::wrapping_add) {
            0 => Ok(()),
            mistakes => wrong(&format!("{what} made {mistakes} mistakes")),
        }
    }
}

/// A pool, and which of its units are taken by others.
pub(super) struct Pool<'d> {
    slabs: SlabAlloc,
    kernels: AllocKernels,
    columns: Columns,
    count: usize,
    clock: &'d Clock,
    /// The units that were taken before, one bit each.
    taken: Units,
}

impl<'d> Pool<'d> {
    /// A pool of which a share is taken, at random.
    pub(super) fn new(
        device: &Device,
        clock: &'d Clock,
        (unit_bytes, capacity): (u32, u64),
        full: f64,
        count: usize,
        dice: &mut Dice,
    ) -> Result<Pool<'d>, BenchError> {
        let options = SlabAllocOptions { initial_units: capacity as u32, most_units: capacity as u32 };
        let slabs = SlabAlloc::new(device, unit_bytes, options)?;
        let capacity = slabs.capacity();
        let pool = Pool {
            slabs,
            kernels: AllocKernels::load(device)?,
            columns: Columns::new(device, count)?,
            count,
            clock,
            taken: Units::none(capacity),
        };
        if full == 0.0 {
            return Ok(pool);
        }
        // All units are claimed, then some given back.
        let all =
            Pool { columns: Columns::new(device, capacity as usize)?, count: capacity as usize, ..pool };
        all.claim(1)?;
        let mut taken = Units::none(capacity);
        let mut free = Vec::new();
        for unit in 0..capacity as u32 {
            if dice.fraction() < full {
                taken.take(unit);
            } else {
                free.push(unit);
            }
        }
        all.columns.handles.write(0, &free)?;
        let some = Pool { count: free.len(), ..all };
        some.release(1)?;
        Ok(Pool { columns: Columns::new(device, count)?, count, taken, ..some })
    }

    fn params(&self, run: u32, rounds: u32) -> AllocParams {
        AllocParams {
            pool: self.slabs.reference(),
            handles: self.columns.handles.ptr(),
            count: (self.count / run as usize) as u64,
            mistakes: self.columns.mistakes.ptr(),
            rounds: u64::from(rounds),
        }
    }

    fn time(&self, kernel: &TypedKernel<AllocParams>, params: &AllocParams) -> Result<f64, BenchError> {
        let grid = Grid::covering(params.count, THREADS);
        // SAFETY: the columns have a handle for each thread, and stay with the pool until the clock has waited.
        self.clock.time(|stream| unsafe { kernel.launch(grid, params, stream) })
    }

    /// Claims a run for each thread, as many units as the batch has; the seconds that it takes.
    pub(super) fn claim(&self, run: u32) -> Result<f64, BenchError> {
        let kernel = match run {
            2 => &self.kernels.claim_2,
            8 => &self.kernels.claim_8,
            32 => &self.kernels.claim_32,
            _ => &self.kernels.claim,
        };
        self.time(kernel, &self.params(run, 0))
    }

    /// Gives the runs back.
    pub(super) fn release(&self, run: u32) -> Result<f64, BenchError> {
        let kernel = match run {
            2 => &self.kernels.release_2,
            8 => &self.kernels.release_8,
            32 => &self.kernels.release_32,
            _ => &self.kernels.release,
        };
        let seconds = self.time(kernel, &self.params(run, 0))?;
        self.columns.check("giving units back")?;
        Ok(seconds)
    }

    /// Lets each thread exchange its unit this many times.
    pub(super) fn churn(&self, rounds: u32) -> Result<f64, BenchError> {
        let seconds = self.time(&self.kernels.churn, &self.params(1, rounds))?;
        self.columns.check("exchanging units")?;
        Ok(seconds)
    }

    /// Checks that each thread has a run of its own, of units that were free.
    pub(super) fn check(&self, run: u32) -> Result<(), BenchError> {
        let mut units = self.taken.clone();
        let count = self.count / run as usize;
        let mut handles = vec![0_u32; count];
        self.columns.handles.read(0, &mut handles)?;
        for first in handles {
            if first == NO_UNIT || !first.is_multiple_of(run) {
                return wrong(&format!("a thread got {first} as the handle of {run} units"));
            }
            for unit in first..first.saturating_add(run) {
                if !units.take(unit) {
                    return wrong(&format!("unit {unit} was handed out twice, or does not exist"));
                }
            }
        }
        match self.slabs.in_use()? == units.count() {
            true => Ok(()),
            false => wrong(&format!("the pool counts {} units, of {}", self.slabs.in_use()?, units.count())),
        }
    }

    /// Checks that the pool is as it was before.
    pub(super) fn check_released(&self) -> Result<(), BenchError> {
        match self.slabs.in_use()? == self.taken.count() {
            true => Ok(()),
            false => wrong("units are taken that were given back"),
        }
    }
}

/// A pool of units of 128 bytes in which nothing is taken, for the figure of the slab hash's paper.
pub(crate) struct EmptyPool<'d>(Pool<'d>);

impl<'d> EmptyPool<'d> {
    /// This many threads will claim a unit each.
    pub(crate) fn new(
        device: &Device,
        clock: &'d Clock,
        threads: usize,
        capacity: u64,
    ) -> Result<EmptyPool<'d>, BenchError> {
        Ok(EmptyPool(Pool::new(device, clock, (128, capacity), 0.0, threads, &mut Dice::new(0, 0))?))
    }

    /// The seconds of the claims; every handle is checked, and all units are given back.
    pub(crate) fn claim_and_release(&self) -> Result<f64, BenchError> {
        let seconds = self.0.claim(1)?;
        self.0.check(1)?;
        self.0.release(1)?;
        self.0.check_released()?;
        Ok(seconds)
    }
}

/// Pools of units of all sizes, from which each thread claims one of some size.
pub(super) struct MixedPools<'d> {
    pools: [SlabAlloc; UNIT_SIZES.len()],
    kernels: AllocKernels,
    columns: Columns,
    count: usize,
    seed: u64,
    clock: &'d Clock,
}

impl<'d> MixedPools<'d> {
    pub(super) fn new(
        device: &Device,
        clock: &'d Clock,
        count: usize,
        seed: u64,
    ) -> Result<MixedPools<'d>, BenchError> {
        // Twice as many as are claimed on average.
        let units = (2 * count.div_ceil(UNIT_SIZES.len())) as u32;
        let options = SlabAllocOptions { initial_units: units, most_units: units };
        let pool = |bytes: u32| SlabAlloc::new(device, bytes, options);
        let [a, b, c, d, e] = UNIT_SIZES;
        Ok(MixedPools {
            pools: [pool(a)?, pool(b)?, pool(c)?, pool(d)?, pool(e)?],
            kernels: AllocKernels::load(device)?,
            columns: Columns::new(device, count)?,
            count,
            seed,
            clock,
        })
    }

    fn time(&self, gives_back: bool) -> Result<f64, BenchError> {
        let [of_32, of_64, of_128, of_256, of_512] = [0, 1, 2, 3, 4].map(|at| self.pools[at].reference());
        let params = MixedParams {
            of_32,
            of_64,
            of_128,
            of_256,
            of_512,
            handles: self.columns.handles.ptr(),
            count: self.count as u64,
            mistakes: self.columns.mistakes.ptr(),
            seed: self.seed,
            gives_back: u64::from(gives_back),
        };
        let grid = Grid::covering(params.count, THREADS);
        // SAFETY: the columns have a handle for each thread, and stay with the pools until the clock has waited.
        self.clock.time(|stream| unsafe { self.kernels.mixed.launch(grid, &params, stream) })
    }

    /// The seconds of a claim; what was claimed is checked.
    pub(super) fn claim(&self) -> Result<f64, BenchError> {
        let seconds = self.time(false)?;
        let mut units = [0, 1, 2, 3, 4].map(|at| Units::none(self.pools[at].capacity()));
        for (number, unit) in (0..).zip(self.columns.handles.to_vec::<u32>()?) {
            let class = MixedParams::size_class(self.seed, number);
            if !units[class].take(unit) {
                return wrong(&format!(
                    "unit {unit} of {} bytes was handed out twice, or does not exist",
                    UNIT_SIZES[class]
                ));
            }
        }
        Ok(seconds)
    }

    /// The seconds of giving everything back.
    pub(super) fn release(&self) -> Result<f64, BenchError> {
        let seconds = self.time(true)?;
        self.columns.check("giving units of all sizes back")?;
        for pool in &self.pools {
            if pool.in_use()? != 0 {
                return wrong(&format!("units of {} bytes were not given back", pool.unit_bytes()));
            }
        }
        Ok(seconds)
    }
}

/// A set of units, one bit each.
#[derive(Clone, Debug)]
struct Units {
    words: Vec<u64>,
    capacity: u64,
}

impl Units {
    fn none(capacity: u64) -> Units {
        Units { words: vec![0; capacity.div_ceil(64) as usize], capacity }
    }

    /// Adds a unit; false if it is in the set or does not exist.
    fn take(&mut self, unit: u32) -> bool {
        if u64::from(unit) >= self.capacity {
            return false;
        }
        let (word, bit) = (&mut self.words[unit as usize / 64], 1 << (unit % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

fn wrong<T>(what: &str) -> Result<T, BenchError> {
    Err(BenchError::Wrong(format!("the slab allocator: {what}")))
}
