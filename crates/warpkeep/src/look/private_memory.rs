//! An image in private memory of the process, for a store that is read and whose own image is missing.

use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use warpkeep_image::{Backing, ImageError};

/// The address space to try first: it costs nothing.
const MOST: usize = 1 << 40;
/// The least useful address space.
const LEAST: usize = 1 << 28;

/// Zeroed memory with room to grow, of which only touched pages count.
pub(super) struct PrivateMemory {
    map: MmapRaw,
    len: AtomicU64,
}

impl PrivateMemory {
    /// `len` bytes, and room for as many more as the system gives addresses for.
    pub(super) fn new(len: u64) -> Result<PrivateMemory, ImageError> {
        let mut room = MOST;
        loop {
            match MmapOptions::new().len(room).no_reserve_swap().map_anon() {
                Ok(map) => {
                    let memory = PrivateMemory { map: map.into(), len: AtomicU64::new(0) };
                    memory.grow(len)?;
                    return Ok(memory);
                }
                Err(_) if room > LEAST => room /= 2,
                Err(error) => {
                    let why = format!("the system gives no addresses for it ({error}); raise `ulimit -v`");
                    return Err(ImageError::OutOfSpace { wanted: len, why });
                }
            }
        }
    }
}

// SAFETY: the mapping is private, readable and writable, as long as all that can be asked for, and stays where it is until it
// is dropped.
unsafe impl Backing for PrivateMemory {
    fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn max_len(&self) -> u64 {
        self.map.len() as u64
    }

    fn grow(&self, len: u64) -> Result<(), ImageError> {
        let wanted = len.saturating_sub(self.len());
        // Touched pages are in use, and the wanted ones will be: more than is available would end the process.
        if len > self.max_len() || available().is_some_and(|available| wanted > available) {
            let why = "the store has no image that could be used, and there is too little memory to build one that is only \
                       read; open it for writing, with its image on a disk"
                .to_owned();
            return Err(ImageError::OutOfSpace { wanted, why });
        }
        self.len.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }

    fn sync(&self, _site: &'static str) -> Result<(), ImageError> {
        Ok(())
    }
}

/// The bytes of memory available without swapping, if the system reports them.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
