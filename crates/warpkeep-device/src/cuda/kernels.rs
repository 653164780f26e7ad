//! Code on a GPU: loading it and launching it.

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule, CUresult};

use super::context::{Context, stream_of};
use crate::arch::Arch;
use crate::backend::{Function, RawModule, RawStream};
use crate::compile::{self, KernelCache};
use crate::error::{DeviceError, Result};
use crate::program::{KernelEntry, Program};
use crate::sim::Grid;

/// Dynamic shared memory up to this needs no attribute of the function.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

impl Context {
    pub(super) fn load_program(
        &self,
        program: &Program,
        cache: &KernelCache,
    ) -> Result<(RawModule, Vec<Function>)> {
        // Compiling for a GPU that is lost would only take time.
        self.health.check()?;
        let arch = self.abilities.arch.unwrap_or(Arch::new(9, 0));
        let compiled = compile::compile_with(cache, arch, program)?;
        let _entered = self.enter()?;
        let mut module: CUmodule = ptr::null_mut();
        // SAFETY: inside the context; the code is a whole cubin: fresh from the compiler, or checked by the cache.
        let result = unsafe { sys::cuModuleLoadData(&raw mut module, compiled.cubin.as_ptr().cast()) };
        self.check("cuModuleLoadData", result)?;
        let loaded = RawModule(module as u64);
        let functions = program.kernels.iter().map(|entry| {
            let raw = self.function(program, module, entry)?;
            let resources = compiled.resources.get(entry.name).copied().unwrap_or_default();
            Ok(Function { entry: *entry, raw: raw as u64, resources })
        });
        match functions.collect::<Result<Vec<_>>>() {
            Ok(functions) => Ok((loaded, functions)),
            Err(error) => {
                self.unload_module(loaded);
                Err(error)
            }
        }
    }

    fn function(&self, program: &Program, module: CUmodule, entry: &KernelEntry) -> Result<CUfunction> {
        let unknown = || DeviceError::UnknownKernel {
            program: program.name,
            kernel: entry.name.to_owned(),
            known: program.kernel_names(),
        };
        let name = CString::new(entry.name).map_err(|_| unknown())?;
        let mut function: CUfunction = ptr::null_mut();
        // SAFETY: the caller is inside the context; module and name are live, and `function` is a live pointer.
        let result = unsafe { sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) };
        if result == CUresult::CUDA_ERROR_NOT_FOUND {
            return Err(unknown());
        }
        self.check("cuModuleGetFunction", result)?;
        // The driver copies as many bytes as the kernel takes, so a struct of another size must be found out now.
        let (mut offset, mut expected) = (0, 0);
        // SAFETY: as above; both are live integers.
        let result = unsafe { sys::cuFuncGetParamInfo(function, 0, &raw mut offset, &raw mut expected) };
        self.check("cuFuncGetParamInfo", result)?;
        if expected != entry.params_bytes {
            let (kernel, given) = (entry.name.to_owned(), entry.params_bytes);
            return Err(DeviceError::WrongParams { kernel, given, expected });
        }
        self.allow_shared(function)?;
        Ok(function)
    }

    pub(super) fn unload_module(&self, module: RawModule) {
        // SAFETY: made by `load_program` and unloaded once. Kernels of it may still be running, so they must end.
        self.release_entered(|| unsafe {
            sys::cuCtxSynchronize();
            sys::cuModuleUnload(module.0 as CUmodule);
        });
    }

    pub(super) fn count_resident_blocks(
        &self,
        function: &Function,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32> {
        let _entered = self.enter()?;
        let mut blocks = 0;
        // SAFETY: inside the context; the function is loaded, and `blocks` is a live integer.
        let result = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                function.raw as CUfunction,
                i32::try_from(threads).unwrap_or(i32::MAX),
                shared_bytes as usize,
            )
        };
        self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
        Ok(u32::try_from(blocks).unwrap_or(0) * self.abilities.multiprocessors)
    }

    /// Lets launches of the function use all the shared memory that a block can have beside the function's own. It is a limit and
    /// reserves nothing; set once when the kernel is loaded, threads that launch with different sizes do not race for it.
    fn allow_shared(&self, function: CUfunction) -> Result<()> {
        let mut own = 0;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the caller is inside the context; the function is loaded and `own` is a live integer.
        let result = unsafe { sys::cuFuncGetAttribute(&raw mut own, attribute, function) };
        self.check("cuFuncGetAttribute", result)?;
        let most = self.abilities.shared_bytes_per_block.saturating_sub(u32::try_from(own).unwrap_or(0));
        if most <= SHARED_WITHOUT_ASKING {
            return Ok(());
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: as above.
        let result =
            unsafe { sys::cuFuncSetAttribute(function, attribute, i32::try_from(most).unwrap_or(i32::MAX)) };
        self.check("cuFuncSetAttribute", result)
    }

    /// # Safety
    /// The parameters must be those that the kernel expects, and what they point to must be good for what it does.
    pub(super) unsafe fn launch_kernel(
        &self,
        function: &Function,
        grid: Grid,
        params: &[u8],
        stream: RawStream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        let own = function.resources.shared_bytes;
        let most = self.abilities.shared_bytes_per_block;
        if grid.shared_bytes > 0 && u64::from(grid.shared_bytes) + u64::from(own) > u64::from(most) {
            let what = format!(
                "{} bytes of shared memory beside the {own} of its own are more than {most}",
                grid.shared_bytes
            );
            return Err(DeviceError::BadGrid { kernel: function.entry.name.to_owned(), what });
        }
        self.health.launched(stream, function.entry.name);
        let mut arguments = [params.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: inside the context; function and stream are live; the one argument has the size that the kernel takes,
        // and the driver copies it before it returns. The rest is the caller's promise.
        let result = unsafe {
            sys::cuLaunchKernel(
                function.raw as CUfunction,
                grid.blocks,
                1,
                1,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                stream_of(stream),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", result)
    }
}
