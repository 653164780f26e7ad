//! Regions that a batch is put in the order of: `kernels/regions.h`.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, Grid, Kernel, Stream};

use super::columns::Column;
use crate::TableError;

/// Regions that are lined up at once: there are that many, or a few times as many.
pub(crate) const LINED_UP: u32 = 1 << 15;
/// Threads of the block that lines them up.
pub(crate) const SCAN_THREADS: u32 = 1024;
/// Words before the counts. The first two are zeros, too, and for whoever wants them.
pub(crate) const HEAD: usize = 8;
/// Regions at the most: a megabyte of counts.
const MOST: u32 = 1 << 18;
/// Bytes of a region of an image, at the most, where there can be enough of them; of other addresses so many as well. The device keeps translations of half a gigabyte of the host's memory, and
/// each warp is somewhere in the region that it has come to: in larger ones all of them together go further than that.
const LARGEST: u64 = 512 << 10;

/// How addresses are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    count: u32,
    /// A region has 2^shift of what addresses are counted in.
    shift: u32,
}

impl Division {
    /// Of addresses below `end`, for so many entries: finer ones cost more to line up, and few entries are as well ordered by few regions.
    pub(crate) fn of(end: u64, entries: u64) -> Division {
        let wanted = end.div_ceil(LARGEST).min(entries).next_power_of_two();
        Division::into(end, wanted.clamp(u64::from(LINED_UP), u64::from(MOST)) as u32)
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

    /// Bytes of the counts and of the head before them.
    pub(crate) fn bytes(self) -> usize {
        4 * (HEAD + self.count())
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
    pub(crate) unsafe fn line_up(&self, line_up: &Kernel, stream: &Stream) -> Result<(), TableError> {
        let one = Grid { blocks: 1, threads: SCAN_THREADS, shared_bytes: 0 };
        // SAFETY: the caller's promise.
        unsafe { Ok(line_up.launch(one, self, stream)?) }
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
    fn large_images_have_more_regions_if_there_is_something_in_them() {
        let of = |gigabytes: u64, entries| Division::of(gigabytes << 30, entries);
        assert_eq!(of(3, 1 << 24), Division { count: 1 << 15, shift: 17 });
        assert_eq!(of(16, 1 << 24), Division { count: 1 << 15, shift: 19 });
        assert_eq!(of(17, 1 << 22), Division { count: 1 << 16, shift: 19 });
        assert_eq!(of(67, 1 << 24), Division { count: 1 << 18, shift: 19 });
        assert_eq!(of(67, 1 << 16), Division { count: 1 << 16, shift: 21 });
        assert_eq!(of(67, 100), Division { count: 1 << 15, shift: 22 });
        assert_eq!(of(1 << 10, 1 << 31), Division { count: 1 << 18, shift: 22 });
    }

    /// The kernel, for one round of its loop and for several.
    #[test]
    #[cfg(not(no_simulator))]
    fn regions_begin_where_those_before_them_end() {
        use warpkeep_core::{KeySpec, ValueSpec};
        use warpkeep_device::{KernelCache, Mode};

        let device = Device::simulated(Mode::fast()).unwrap();
        let value = ValueSpec::fixed(128).unwrap();
        let (geometry, layout) = (crate::Geometry::default(), crate::Layout::Packed);
        let program = crate::gpu::program_for(geometry, layout, KeySpec::U64, value).unwrap();
        let module = device.load_with(&program, &KernelCache::none()).unwrap();
        let (line_up, stream) = (module.kernel("gphash_line_up").unwrap(), device.stream().unwrap());
        for rounds in [1, 2, 8] {
            let division = Division::into(1 << 40, rounds * LINED_UP);
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
                let buffer = device.upload(&words).unwrap();
                // SAFETY: there are as many counts, with a head before them.
                unsafe { division.at(buffer.ptr()).line_up(&line_up, &stream).unwrap() };
                stream.synchronize().unwrap();
                assert_eq!(&buffer.to_vec::<u32>().unwrap()[HEAD..], expected);
            }
        }
    }
}
