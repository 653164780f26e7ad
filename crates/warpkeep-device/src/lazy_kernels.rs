//! Kernel sets that are compiled when they are first used.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::device::Device;
use crate::error::Result;
use crate::kernel_set::KernelSet;
use crate::program::Program;

/// A kernel set of a device, loaded at its first use: a container whose kernels are several sets compiles those that it needs.
///
/// Compiling takes seconds, once for each user and kind of GPU: the [cache](crate::KernelCache) keeps the result. A failure is not
/// remembered, so the next use tries again.
#[derive(Debug)]
pub struct LazyKernels<S> {
    device: Device,
    program: Program,
    loaded: OnceLock<S>,
    loading: Mutex<()>,
}

impl<S: KernelSet> LazyKernels<S> {
    /// The set with these constants: see [`Program::with_constants`].
    pub fn with_constants<'c>(device: &Device, constants: impl IntoIterator<Item = (&'c str, u64)>) -> Self {
        let program = S::program().with_constants(constants);
        Self { device: device.clone(), program, loaded: OnceLock::new(), loading: Mutex::new(()) }
    }

    /// The kernels.
    #[inline]
    pub fn get(&self) -> Result<&S> {
        match self.loaded.get() {
            Some(kernels) => Ok(kernels),
            None => self.load(),
        }
    }

    #[cold]
    fn load(&self) -> Result<&S> {
        // Threads that come at the same time wait for one, and do not all compile.
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = self.loaded.get() {
            return Ok(kernels);
        }
        let kernels = S::of(&self.device.load(&self.program)?)?;
        Ok(self.loaded.get_or_init(|| kernels))
    }

    /// Whether the set has been loaded.
    pub fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }
}
