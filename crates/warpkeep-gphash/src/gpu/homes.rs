//! Pieces of the image that are each read by one multiprocessor: `kernels/homes.h`.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, Grid};

use super::engine::THREADS;
use super::regions::Division;

/// Counts of a home.
pub(crate) const HOME_WORDS: usize = 3;
/// Bytes of a piece, at least, where a batch is put in order.
const PIECE: u64 = 2 << 20;
/// Pieces of a home, at the most: a warp looks at all of them at once.
const PIECES: u32 = 32;
/// Pieces where a batch is dealt, at least, unless a home would have too many: so many that every home has some, and so few that each has something to do.
/// Larger batches have more, so that equal keys of one are in the same group.
const DEALT: u64 = 1 << 10;
const DEALT_EACH: u64 = 16;
/// Places of a hand beyond what is to be expected of it.
const SOME: u64 = 8;

/// What kernels are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub(crate) struct Homes {
    counts: DevicePtr,
    /// How many homes there are.
    count: u32,
    /// Blocks of each.
    rooms: u32,
    pieces: u32,
    /// A piece has 2^shift regions.
    shift: u32,
    /// Places of a piece, where a batch is dealt.
    hand: u64,
    /// Of what is in order so many and more are fetched by everybody.
    below: u64,
}

impl Homes {
    /// None.
    pub(crate) const NONE: Homes =
        Homes { counts: DevicePtr::NULL, count: 0, rooms: 0, pieces: 0, shift: 0, hand: 0, below: 0 };

    /// One for each multiprocessor, for so many keys whose records, in an image of so many bytes, are put in order by regions; the device runs so many blocks at
    /// once.
    pub(crate) fn ordered(count: u32, division: Division, image_len: u64, keys: u64, resident: u32) -> Homes {
        let wanted = image_len.div_ceil(u64::from(count * PIECES)).max(PIECE).next_power_of_two();
        let shift = wanted.ilog2().saturating_sub(division.shift());
        let pieces = image_len.div_ceil(1 << (shift + division.shift())) as u32;
        let rooms = rooms(keys, count).min(resident / count).max(1);
        Homes { count, rooms, pieces, shift, ..Homes::NONE }
    }

    /// The same for keys that are dealt, and the regions they are dealt to.
    pub(crate) fn dealt(count: u32, image_len: u64, keys: u64, resident: u32) -> (Homes, Division) {
        let regions = (keys / DEALT_EACH).max(DEALT).min(u64::from(count * PIECES));
        let division = Division::into(image_len, 1 << regions.ilog2());
        let homes = Homes::ordered(count, division, image_len, keys, resident);
        // Four times as many as there are on average, and some: few hands are ever full, unless everybody wants the same.
        let used = image_len.div_ceil(1 << division.shift());
        let hand = (4 * keys / used + SOME).next_power_of_two();
        // All regions: the image can have grown by the time the batch is looked up.
        (Homes { pieces: division.count() as u32, shift: 0, hand, ..homes }, division)
    }

    /// Only for fewer than so many, where they are put in order.
    pub(crate) fn below(self, below: u64) -> Homes {
        Homes { below, ..self }
    }

    /// Bytes of the counts of so many.
    pub(crate) fn bytes(count: u32) -> usize {
        4 * HOME_WORDS * count as usize
    }

    /// With their counts there.
    pub(crate) fn at(self, counts: DevicePtr) -> Homes {
        Homes { counts, ..self }
    }

    /// Places that all hands have.
    pub(crate) fn places(&self) -> usize {
        self.pieces as usize * self.hand as usize
    }

    /// With one room each.
    pub(crate) fn in_one_room(self) -> Homes {
        Homes { rooms: 1, ..self }
    }

    /// A block of so many threads for each room.
    pub(crate) fn grid(&self, threads: u32) -> Grid {
        Grid { blocks: self.count * self.rooms, threads, shared_bytes: 0 }
    }
}

/// Multiprocessors of a device, each of which has a home.
pub(crate) fn multiprocessors(device: &Device) -> u32 {
    device.info().abilities.multiprocessors.max(1)
}

/// Blocks of a home, if it has a warp for each of its groups.
fn rooms(keys: u64, count: u32) -> u32 {
    keys.div_ceil(u64::from(count) * u64::from(THREADS)).clamp(1, u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_image_and_are_shared_out() {
        for image_len in [1_u64, 1 << 20, 5 << 20, 2_700_000_001, 67 << 30, 1 << 40] {
            for (keys, resident) in [(1_u64, 1), (4096, 528), (1 << 18, 528), (1 << 24, 1056)] {
                for count in [1_u32, 2, 132] {
                    let division = Division::of(image_len, keys);
                    let homes = Homes::ordered(count, division, image_len, keys, resident);
                    let (dealt, dealt_by) = Homes::dealt(count, image_len, keys, resident);
                    for (homes, division) in [(homes, division), (dealt, dealt_by)] {
                        let (pieces, piece) =
                            (u64::from(homes.pieces), 1_u64 << (homes.shift + division.shift()));
                        assert!(pieces * piece >= image_len, "{homes:?}");
                        // Their beginnings are those of regions.
                        assert!((pieces - 1) << homes.shift < division.count() as u64, "{homes:?}");
                        assert!(homes.pieces <= count * PIECES && (1..=resident).contains(&homes.rooms));
                    }
                    assert!(dealt.places() as u64 >= keys && dealt.shift == 0);
                }
            }
        }
    }

    #[test]
    fn larger_batches_have_more_rooms_and_larger_hands() {
        let of =
            |keys| Homes::ordered(132, Division::of(2_700_000_000, keys), 2_700_000_000, keys, 528).rooms;
        assert_eq!([of(4096), of(1 << 16), of(1 << 17), of(1 << 18)], [1, 2, 4, 4]);
        let hand = |keys| Homes::dealt(132, 2_700_000_000, keys, 528).0.hand;
        assert_eq!([hand(1), hand(4096), hand(1 << 14), hand(1 << 16)], [8, 64, 128, 128]);
    }
}
