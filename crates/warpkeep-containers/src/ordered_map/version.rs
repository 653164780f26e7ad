//! Versions of a map: directories of leaves, which never change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_device::{Buffer, Device, DevicePtr, Result};

use super::kernels::{FANOUT, LEVELS, NewDirectory, OrderedMapRef, Shape};

/// Directories that are kept for other versions: the one before and the one after a batch take turns.
const KEPT: usize = 2;

/// Where the parts of a directory lie in its memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Layout {
    pub(super) leaf_count: u64,
    levels: [u64; LEVELS],
    depth: u32,
    /// Separators of all levels.
    pub(super) entries: u64,
    handles_at: u64,
    before_at: u64,
    pub(super) bytes: usize,
}

impl Layout {
    pub(super) fn new(shape: Shape, leaf_count: u64) -> Layout {
        let mut layout = Layout { leaf_count, ..Layout::default() };
        if leaf_count == 0 {
            return layout;
        }
        let mut of_level = leaf_count;
        loop {
            layout.levels[layout.depth as usize] = layout.entries;
            layout.depth += 1;
            layout.entries += of_level.next_multiple_of(FANOUT);
            if of_level <= FANOUT {
                break;
            }
            of_level = of_level.div_ceil(FANOUT);
        }
        layout.handles_at = layout.entries * shape.key_bytes() as u64;
        layout.before_at = layout.handles_at + (4 * leaf_count).next_multiple_of(16);
        layout.bytes = (layout.before_at + 4 * (leaf_count + 1)) as usize;
        layout
    }

    /// A directory at this address, to be written.
    pub(super) fn directory(&self, at: DevicePtr) -> NewDirectory {
        NewDirectory {
            separators: at,
            handles: at.offset(self.handles_at),
            before: at.offset(self.before_at),
            levels: self.levels,
            leaf_count: self.leaf_count,
            depth: self.depth,
            reserved: 0,
        }
    }

    /// A directory at this address, of leaves at that one, to be read.
    pub(super) fn reference(&self, at: DevicePtr, leaves: DevicePtr) -> OrderedMapRef {
        OrderedMapRef {
            leaves,
            separators: at,
            handles: at.offset(self.handles_at),
            before: at.offset(self.before_at),
            levels: self.levels,
            leaf_count: self.leaf_count as u32,
            depth: self.depth,
        }
    }
}

/// Memory of directories that no version uses.
#[derive(Debug, Default)]
pub(super) struct Directories(Mutex<Vec<Buffer>>);

impl Directories {
    /// Memory for a directory of this many bytes.
    pub(super) fn take(&self, device: &Device, bytes: usize) -> Result<Buffer> {
        let mut kept = self.lock();
        match kept.iter().position(|buffer| buffer.len() >= bytes) {
            Some(at) => Ok(kept.swap_remove(at)),
            None => Self::make(&mut kept, device, bytes),
        }
    }

    /// As [`take`](Self::take), and leaves memory for another one of this length, so that a batch after this one that removes keys does
    /// not fail for want of it.
    pub(super) fn take_with_spare(&self, device: &Device, bytes: usize) -> Result<Buffer> {
        let taken = self.take(device, bytes)?;
        let spare = self.take(device, bytes);
        match spare {
            Ok(spare) => self.put_back([spare]),
            Err(error) => {
                // The newest version keeps one, too.
                self.put_back([taken]);
                return Err(error);
            }
        }
        Ok(taken)
    }

    /// New memory; those that are kept are too short, and make room for it if there is no other.
    fn make(kept: &mut Vec<Buffer>, device: &Device, bytes: usize) -> Result<Buffer> {
        // A quarter more, so that a map that grows does not need a new allocation for each batch.
        for bytes in [bytes + bytes / 4, bytes] {
            match device.allocate(bytes) {
                Err(error) if error.is_out_of_memory() => {}
                made => return made,
            }
        }
        let longest = kept.iter().map(Buffer::len).max();
        kept.clear();
        let made = device.allocate(bytes);
        if let (Err(_), Some(longest)) = (&made, longest) {
            kept.extend(device.allocate(longest).ok());
        }
        made
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps memory that no kernel uses any more.
    pub(super) fn put_back(&self, buffers: impl IntoIterator<Item = Buffer>) {
        let mut kept = self.lock();
        kept.extend(buffers);
        if kept.len() > KEPT {
            kept.sort_by_key(Buffer::len);
            kept.remove(0);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let kept = self.lock();
        kept.iter().map(|buffer| buffer.len() as u64).sum()
    }
}

/// A state of the map. Its leaves stay as they are while it is there.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) number: u64,
    /// Keys.
    pub(super) length: u64,
    pub(super) layout: Layout,
    /// None without leaves.
    directory: Option<Buffer>,
    home: Arc<Directories>,
}

impl Version {
    pub(super) fn new(
        number: u64,
        length: u64,
        layout: Layout,
        directory: Option<Buffer>,
        home: Arc<Directories>,
    ) -> Self {
        Self { number, length, layout, directory, home }
    }

    pub(super) fn reference(&self, leaves: DevicePtr) -> OrderedMapRef {
        self.layout.reference(self.directory.as_ref().map_or(DevicePtr::NULL, Buffer::ptr), leaves)
    }

    /// Bytes of its directory.
    pub(super) fn bytes(&self) -> u64 {
        self.directory.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    /// The number of keys in the leaves before each of these, and in all up to the last of them.
    pub(super) fn keys_before(&self, first: u64, leaves: u64) -> Result<(u32, u32)> {
        let Some(directory) = &self.directory else { return Ok((0, 0)) };
        let at = |leaf: u64| (self.layout.before_at + 4 * leaf) as usize;
        let (mut begin, mut end) = ([0_u32], [0_u32]);
        directory.read(at(first), &mut begin)?;
        directory.read(at(first + leaves), &mut end)?;
        Ok((begin[0], end[0]))
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.home.put_back(self.directory.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_every_sixteenth_separator_of_the_one_below() {
        let of = |leaves| Layout::new(Shape::U64, leaves);
        assert_eq!((of(0).depth, of(0).bytes), (0, 0));
        assert_eq!((of(1).depth, of(1).entries, of(1).bytes), (1, 16, 128 + 16 + 8));
        assert_eq!((of(16).depth, of(17).depth, of(17).entries), (1, 2, 32 + 16));
        assert_eq!((of(256).depth, of(257).depth), (2, 3));
        let largest = of(u64::from(u32::MAX));
        assert_eq!((largest.depth, largest.levels[7]), (8, largest.entries - 16));
    }
}
