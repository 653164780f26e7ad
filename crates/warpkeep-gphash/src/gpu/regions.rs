//! Regions that a batch is put in the order of: `kernels/regions.h`.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, Grid, Stream, TypedKernel};

use super::columns::Column;
use crate::TableError;

/// Regions that a block lines up: there are a multiple of them.
pub(crate) const LINED_UP: u32 = 1 << 13;
/// Threads of such a block.
pub(crate) const SCAN_THREADS: u32 = 1024;
/// Words before the counts. The first two are zeros, too, and for whoever wants them.
pub(crate) const HEAD: usize = 8;
/// Regions at the most: 16 MiB of counts.
const MOST: u32 = 1 << 22;
/// Entries that a region has, about, where there can be enough of them: those of one record are near enough to each other then for one
/// warp to have them all.
const EACH: u64 = 2;

/// How addresses are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    count: u32,
    /// A region has 2^shift of what addresses are counted in.
    shift: u32,
}

impl Division {
    /// Of addresses below `end`, for so many entries: few are as well ordered by few regions.
    pub(crate) fn of(end: u64, entries: u64) -> Division {
        let wanted = (entries / EACH).clamp(u64::from(LINED_UP), u64::from(MOST));
        Division::into(end, wanted.next_power_of_two() as u32)
    }

    /// The same, into so many, which is a power of two.
    pub(crate) fn into(end: u64, count: u32) -> Division {
        let bits = u64::BITS - end.saturating_sub(1).leading_zeros();
        Division { count, shift: bits.saturating_sub(count.ilog2()) }
    }

    /// How many regions there are.
    pub(crate) fn count(self) -> usize {
        self.count as usize
    }

    /// A region has 2^shift of what addresses are counted in.
    pub(crate) fn shift(self) -> u32 {
        self.shift
    }

    /// Blocks that line them up.
    fn blocks(self) -> u32 {
        self.count.div_ceil(LINED_UP)
    }

    /// Bytes of the counts, of the head before them, and of what blocks tell each other behind them.
    pub(crate) fn bytes(self) -> usize {
        4 * (HEAD + self.count() + self.blocks() as usize)
    }

    /// Regions whose head lies there, and the counts behind it.
    pub(crate) fn at(self, head: DevicePtr) -> Regions {
        Regions { counts: head.offset(4 * HEAD as u64), last: self.count - 1, shift: self.shift }
    }

    /// Regions with nothing in them, after what is in the stream.
    pub(crate) fn zeros(
        self,
        device: &Device,
        column: &mut Column,
        stream: &Stream,
    ) -> Result<Regions, TableError> {
        Ok(self.at(column.zeros(device, self.bytes(), stream)?))
    }
}

/// What kernels are given.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct Regions {
    counts: DevicePtr,
    /// The last of them.
    last: u32,
    shift: u32,
}

impl Regions {
    /// None, for whoever orders nothing.
    pub(crate) const NONE: Regions = Regions { counts: DevicePtr::NULL, last: 0, shift: 0 };

    /// Puts the kernel into a stream that lines them up.
    ///
    /// # Safety
    /// They were [divided](Division::of) so that they can be, and their counts stay until the stream is synchronised.
    pub(crate) unsafe fn line_up(
        &self,
        line_up: &TypedKernel<Regions>,
        stream: &Stream,
    ) -> Result<(), TableError> {
        let blocks = self.last / LINED_UP + 1;
        let grid = Grid { blocks, threads: SCAN_THREADS, shared_bytes: 0 };
        // SAFETY: the caller's promise.
        unsafe { Ok(line_up.launch(grid, self, stream)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_in_some_region() {
        for end in [1, 32_767, 32_768, 32_769, 1 << 30, (1 << 30) + 1, 67 << 30, 1 << 44] {
            for entries in [1, 1 << 16, 1 << 24, 1 << 31] {
                let Division { count, shift } = Division::of(end, entries);
                let last = (end - 1_u64) >> shift;
                assert!(last < u64::from(count), "{end}");
                assert!(shift == 0 || last >= u64::from(count / 2), "{end}");
                assert!(count.is_multiple_of(LINED_UP) && count <= MOST);
            }
        }
    }

    #[test]
    fn many_entries_have_many_regions() {
        let of = |gigabytes: u64, entries| Division::of(gigabytes << 30, entries);
        assert_eq!(of(3, 100), Division { count: 1 << 13, shift: 19 });
        assert_eq!(of(3, 1 << 20), Division { count: 1 << 19, shift: 13 });
        assert_eq!(of(3, (1 << 20) + 2), Division { count: 1 << 20, shift: 12 });
        assert_eq!(of(67, 1 << 22), Division { count: 1 << 21, shift: 16 });
        assert_eq!(of(1 << 10, 1 << 31), Division { count: 1 << 22, shift: 18 });
    }

    /// The kernel, with one block and with as many as there can be.
    #[test]
    #[cfg(not(no_simulator))]
    fn regions_begin_where_those_before_them_end() {
        use warpkeep_device::{KernelCache, KernelSet as _, Mode};

        use crate::gpu::kernels::IndexKernels;

        let device = Device::simulated(Mode::fast()).unwrap();
        let kernels = IndexKernels::load_with(&device, &KernelCache::none()).unwrap();
        let (line_up, stream) = (kernels.line_up, device.stream().unwrap());
        for blocks in [1, 2, 8, MOST / LINED_UP] {
            let division = Division::into(1 << 40, blocks * LINED_UP);
            assert_eq!(division.blocks(), blocks);
            let counts: Vec<u32> =
                (0..division.count() as u32).map(|region| region.wrapping_mul(2_654_435_761) >> 29).collect();
            let begins = counts.iter().scan(0, |begin, count| {
                *begin += count;
                Some(*begin - count)
            });
            let begins: Vec<u32> = begins.collect();
            for (all, expected) in [(counts.iter().sum(), &begins), (0, &counts)] {
                let mut words = vec![0; HEAD];
                words[HEAD / 2] = all;
                words.extend(&counts);
                words.resize(division.bytes() / 4, 0);
                let buffer = device.upload(&words).unwrap();
                // SAFETY: there are as many counts, with a head before them.
                unsafe { division.at(buffer.ptr()).line_up(&line_up, &stream).unwrap() };
                stream.synchronize().unwrap();
                assert_eq!(&buffer.to_vec::<u32>().unwrap()[HEAD..][..division.count()], expected);
            }
        }
    }
}
