//! Loaded kernels.

use std::sync::Arc;

use bytemuck::NoUninit;

use crate::backend::{Function, RawModule};
use crate::compile::{KernelCache, Resources};
use crate::device::Core;
use crate::error::{DeviceError, Result};
use crate::program::{MAX_PARAMS_BYTES, Program};
use crate::sim::Grid;
use crate::stream::Stream;

/// A [`Program`] on a device, ready to be launched. Made by [`Device::load`](crate::Device::load).
///
/// ```
/// use std::ffi::c_void;
/// use warpkeep_device::{Device, DeviceChoice, Grid, KernelEntry, Program, SimulatedKernel};
///
/// // What WK_KERNEL(nothing, Params) makes under a C++ compiler. The macro `kernel_set!` writes all of this.
/// unsafe extern "C" fn nothing(_params: *const c_void) {}
/// unsafe extern "C" fn params_bytes() -> u64 { 8 }
///
/// static KERNELS: &[KernelEntry] = &[KernelEntry {
///     name: "nothing",
///     params_bytes: size_of::<u64>(),
///     simulated: Some(SimulatedKernel { entry: nothing, params_bytes }),
/// }];
///
/// let program =
///     Program { name: "example", main: "", sources: &[], defines: vec![], kernels: KERNELS, agreements: &[] };
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let (module, stream) = (device.load(&program)?, device.stream()?);
/// // SAFETY: the kernel takes a u64 and touches no memory.
/// unsafe { module.launch("nothing", Grid::covering(1000, 128), &7u64, &stream)? };
/// stream.synchronize()?;
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct Module {
    code: Arc<Code>,
}

#[derive(Debug)]
struct Code {
    core: Arc<Core>,
    raw: RawModule,
    program: &'static str,
    names: String,
    functions: Vec<Function>,
}

impl Module {
    pub(crate) fn new(core: Arc<Core>, program: &Program, cache: &KernelCache) -> Result<Self> {
        let (raw, functions) = core.backend.load(program, cache)?;
        let code = Code { core, raw, program: program.name, names: program.kernel_names(), functions };
        Ok(Self { code: Arc::new(code) })
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        match self.code.functions.iter().position(|function| function.entry.name == name) {
            Some(index) => Ok(Kernel { code: self.code.clone(), index }),
            None => Err(self.unknown(name)),
        }
    }

    /// Launches a kernel by name; [`Kernel::launch`] without the search.
    ///
    /// # Safety
    /// As [`Kernel::launch`].
    pub unsafe fn launch<P: NoUninit>(
        &self,
        kernel: &str,
        grid: Grid,
        params: &P,
        stream: &Stream,
    ) -> Result<()> {
        // SAFETY: as this function's contract says.
        unsafe { self.kernel(kernel)?.launch(grid, params, stream) }
    }

    fn unknown(&self, name: &str) -> DeviceError {
        let (kernel, known) = (name.to_owned(), self.code.names.clone());
        DeviceError::UnknownKernel { program: self.code.program, kernel, known }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.core.backend.unload(self.raw);
    }
}

/// One kernel of a [`Module`], which it keeps loaded.
#[derive(Debug, Clone)]
pub struct Kernel {
    code: Arc<Code>,
    index: usize,
}

impl Kernel {
    /// Its name in the source.
    pub fn name(&self) -> &'static str {
        self.function().entry.name
    }

    /// Bytes of the parameters that it takes.
    pub(crate) fn params_bytes(&self) -> usize {
        self.function().entry.params_bytes
    }

    /// What it uses of a multiprocessor; all zero on the simulator.
    pub fn resources(&self) -> Resources {
        self.function().resources
    }

    /// How many blocks of this shape the device runs at once: more than that wait for others to end.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.code.core.backend.resident_blocks(self.function(), threads, shared_bytes)
    }

    /// Puts the kernel into a stream, with a struct of parameters that the device copies now. On the simulator it
    /// runs before this returns.
    ///
    /// # Safety
    /// `P` must have the layout of the struct that the kernel takes. What the parameters point to must be good for what
    /// the kernel does with it until the stream has been synchronised, and the program must not look at it meanwhile, but for words that both
    /// look at as atomic ones.
    pub unsafe fn launch<P: NoUninit>(&self, grid: Grid, params: &P, stream: &Stream) -> Result<()> {
        stream.belongs_to(&self.code.core)?;
        let params = bytemuck::bytes_of(params);
        self.check(grid, params.len())?;
        // SAFETY: the size was checked; the rest is this function's contract.
        unsafe { self.code.core.backend.launch(self.function(), grid, params, stream.raw) }
    }

    fn check(&self, grid: Grid, params_bytes: usize) -> Result<()> {
        let kernel = || self.name().to_owned();
        if params_bytes > MAX_PARAMS_BYTES {
            let (bytes, most) = (params_bytes, MAX_PARAMS_BYTES);
            return Err(DeviceError::ParamsTooLarge { kernel: kernel(), bytes, most });
        }
        let expected = self.params_bytes();
        if params_bytes != expected {
            return Err(DeviceError::WrongParams { kernel: kernel(), given: params_bytes, expected });
        }
        let most = self.code.core.info.abilities;
        let wrong = if grid.blocks == 0 || grid.threads == 0 {
            format!("{} blocks of {} threads are nothing to run", grid.blocks, grid.threads)
        } else if grid.blocks > i32::MAX as u32 {
            format!("{} blocks are more than {}", grid.blocks, i32::MAX)
        } else if grid.threads > most.threads_per_block {
            format!("{} threads in a block are more than {}", grid.threads, most.threads_per_block)
        } else if grid.shared_bytes > most.shared_bytes_per_block {
            format!(
                "{} bytes of shared memory are more than {}",
                grid.shared_bytes, most.shared_bytes_per_block
            )
        } else {
            return Ok(());
        };
        Err(DeviceError::BadGrid { kernel: kernel(), what: wrong })
    }

    fn function(&self) -> &Function {
        &self.code.functions[self.index]
    }
}
