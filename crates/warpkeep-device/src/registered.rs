//! Memory mapped by others, made reachable for kernels.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::backend::Reach;
use crate::device::Core;
use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;
use crate::sim::RegionId;

/// How much is registered in one call: pinning very large ranges at once makes drivers fail or other processes wait.
const CHUNK_BYTES: usize = 16 << 30;
/// Chunks are whole numbers of the largest page in common use, so that none is cut in two.
pub(crate) const CHUNK_ALIGNMENT: usize = 2 << 20;

/// What registered memory is to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// Memory that dies with the process.
    #[default]
    Host,
    /// An image, whose bytes outlive the process: the simulator logs stores to it, so that crashes can be explored.
    Image,
}

/// How to register memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterOptions {
    /// What it is to the program.
    pub kind: MemoryKind,
    /// How much to register in one call, rounded up to a multiple of 2 MiB. Kernels do not notice.
    pub chunk_bytes: usize,
}

impl RegisterOptions {
    /// For memory that dies with the process.
    pub const HOST: Self = Self { kind: MemoryKind::Host, chunk_bytes: CHUNK_BYTES };
    /// For an image.
    pub const IMAGE: Self = Self { kind: MemoryKind::Image, chunk_bytes: CHUNK_BYTES };

    /// The ranges to register one by one: offset and length of each.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only drivers register in chunks"))]
    pub(crate) fn chunks(&self, bytes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let step = self.chunk_bytes.clamp(1, usize::MAX / 2).next_multiple_of(CHUNK_ALIGNMENT);
        (0..bytes).step_by(step).map(move |offset| (offset, step.min(bytes - offset)))
    }
}

impl Default for RegisterOptions {
    fn default() -> Self {
        Self::HOST
    }
}

/// Memory that other code mapped and that kernels can use for as long as this lives. Made by [`Device::register`](crate::Device::register).
#[derive(Debug)]
pub struct Registered {
    core: Arc<Core>,
    at: NonNull<u8>,
    reach: Reach,
    bytes: usize,
    options: RegisterOptions,
}

// SAFETY: this value only remembers the address; it never looks at the memory.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// # Safety
    /// As [`Device::register`](crate::Device::register).
    pub(crate) unsafe fn new(
        core: Arc<Core>,
        at: NonNull<u8>,
        bytes: usize,
        options: RegisterOptions,
    ) -> Result<Self> {
        if bytes == 0 {
            return Err(DeviceError::CannotRegister {
                len: 0,
                cause: "there is nothing to register".to_owned(),
                advice: "give a range of at least one byte",
            });
        }
        // SAFETY: the caller keeps the range mapped until this is dropped, which unregisters it.
        let reach = unsafe { core.backend.register(at, bytes, &options)? };
        core.reached.add(at, bytes, reach.device_ptr);
        Ok(Self { core, at, reach, bytes, options })
    }

    /// Where kernels have it.
    pub fn ptr(&self) -> DevicePtr {
        self.reach.device_ptr
    }

    /// What the simulator's store log calls it; `None` on a GPU.
    pub fn region(&self) -> Option<RegionId> {
        self.reach.region
    }

    /// Where the program has it.
    pub fn host_ptr(&self) -> NonNull<u8> {
        self.at
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: an empty range is not registered.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.core.reached.remove(self.at);
        self.core.backend.unregister(self.at, self.bytes, &self.options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_range_once_and_begin_at_large_pages() {
        let options = RegisterOptions { chunk_bytes: 3 << 20, ..RegisterOptions::HOST };
        let chunks: Vec<_> = options.chunks((9 << 20) + 5).collect();
        assert_eq!(chunks, [(0, 4 << 20), (4 << 20, 4 << 20), (8 << 20, (1 << 20) + 5)]);
        assert_eq!(RegisterOptions::HOST.chunks(7).collect::<Vec<_>>(), [(0, 7)]);
        let whole = RegisterOptions { chunk_bytes: usize::MAX, ..RegisterOptions::HOST };
        assert_eq!(whole.chunks(64 << 30).count(), 1);
    }
}
