//! The slots of a map in device memory, and how they grow.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::{NoUninit, Zeroable};
use warpkeep_device::{Buffer, Device, DeviceError, DevicePtr, Grid, GrowingBuffer, Result, Stream};

use super::kernels::{CONTROL_WORDS, Doubling, Kernels, LEAST_BITS, PENDING, PENDING_NEXT, THREADS};
use super::width::{MapKey, MapValue, Shape};
use crate::spread_count::{COUNT_WORDS, sum};

/// Bytes of the slots of a bucket.
pub(super) const BUCKET_BYTES: usize = 64;
/// Percent of the slots beyond which the map grows, because displacement fails too often.
const MOST_LOAD: u64 = 95;
/// A map with fewer keys than one for this many slots does not grow: only chosen keys can need it, and there is no end to what they need.
const LEAST_SHARE: u64 = 4;

/// The struct `HashRef` of `warpkeep/hash_map.h`, whatever the types of keys and values.
#[derive(Clone, Copy, Debug, NoUninit, Zeroable)]
#[repr(C)]
pub(super) struct RawRef {
    slots: DevicePtr,
    values: DevicePtr,
    control: DevicePtr,
    seed: u64,
    mask: u64,
}

/// What kernels need to use a map: the struct `HashRef<K, V>` of `warpkeep/hash_map.h`, to be a part of a kernel's parameters. Values of 16
/// bytes are `U128` there.
///
/// It stays good until the next call of the host that changes the map. The header says which operations of kernels may run at the
/// same time.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct HashMapRef<K = u64, V = u64> {
    raw: RawRef,
    of: PhantomData<fn() -> (K, V)>,
}

// SAFETY: transparent over a struct without padding; the types are those of what it points to.
unsafe impl<K: Copy + 'static, V: Copy + 'static> NoUninit for HashMapRef<K, V> {}

/// Buckets, of which there are a power of two.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) slots: GrowingBuffer,
    /// A value for each slot, if values are apart.
    pub(super) values: Option<GrowingBuffer>,
    /// The number of keys, and words that kernels count in.
    pub(super) control: Buffer,
    pub(super) seed: u64,
    pub(super) shape: Shape,
    pub(super) bits: u32,
    /// What `bits` can grow to. Reserved addresses are rounded up, and can be for more.
    most_bits: u32,
    /// The number of keys after the last change, if the host has waited for that.
    known: Option<u64>,
    /// Whether others were given a reference: their kernels may add and erase keys.
    is_shared: AtomicBool,
}

/// What kernels have counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Keys in the map.
    pub(super) length: u64,
    /// What the words `PENDING` and `PENDING_NEXT` have.
    pub(super) pending: [u64; 2],
}

/// Whether this many keys are few enough for this many slots.
pub(super) fn fits(keys: u64, slots: u64) -> bool {
    u128::from(keys) * 100 <= u128::from(slots) * u128::from(MOST_LOAD)
}

/// The smallest size for this many keys.
fn bits_for(keys: u64, shape: Shape) -> u32 {
    let most = shape.most_bits();
    (LEAST_BITS..most).find(|bits| fits(keys, shape.slots() << bits)).unwrap_or(most)
}

/// The bytes of a bucket: its slots, and its values if they are apart.
pub(super) fn bucket_bytes(shape: Shape) -> u64 {
    (BUCKET_BYTES + shape.apart_bytes()) as u64
}

/// The largest size that takes no more than this many bytes, if there is one.
fn most_bits_within(bytes: u64, shape: Shape) -> Option<u32> {
    let bits = (bytes / bucket_bytes(shape)).checked_ilog2().filter(|bits| *bits >= LEAST_BITS)?;
    Some(bits.min(shape.most_bits()))
}

/// For how many keys to make a map into which this many are loaded. The map that was saved may have had a load of more than [`MOST_LOAD`], and so
/// may this one, if it has a slot for each key.
pub(super) fn loadable(keys: u64, shape: Shape, most_bytes: Option<u64>) -> u64 {
    let most_bits = most_bytes.and_then(|bytes| most_bits_within(bytes, shape));
    match most_bits.map(|bits| shape.slots() << bits) {
        Some(slots) if keys <= slots => keys.min(slots * MOST_LOAD / 100),
        _ => keys,
    }
}

/// The size of a table for this many keys, and what it can grow to. An error if `most_bytes` is too little for that.
fn sizes(device: &Device, shape: Shape, items: u64, most_bytes: Option<u64>) -> Result<(u32, u32)> {
    let bits = bits_for(items, shape);
    let Some(left) = most_bytes else {
        let most = device.memory()?.1.checked_next_power_of_two().unwrap_or(u64::MAX);
        return Ok((bits, most_bits_within(most, shape).map_or(bits, |most| most.max(bits))));
    };
    match most_bits_within(left, shape) {
        Some(most) if bits <= most => Ok((bits, most)),
        _ => Err(DeviceError::OutOfBudget { asked: bucket_bytes(shape) << bits, left }),
    }
}

impl Table {
    /// An empty table with room for `items` keys, whose slots and values never take more than `most_bytes`.
    pub(super) fn new(
        device: &Device,
        shape: Shape,
        items: u64,
        most_bytes: Option<u64>,
        seed: u64,
    ) -> Result<Table> {
        let (bits, most_bits) = sizes(device, shape, items, most_bytes)?;
        let mut slots = device.reserve(BUCKET_BYTES << most_bits)?;
        slots.grow_zeroed(BUCKET_BYTES << bits)?;
        let values = match shape.apart_bytes() {
            0 => None,
            apart => {
                let mut values = device.reserve(apart << most_bits)?;
                values.grow(apart << bits)?;
                Some(values)
            }
        };
        let control = device.allocate_zeroed(8 * CONTROL_WORDS)?;
        let (known, is_shared) = (Some(0), AtomicBool::new(false));
        Ok(Table { slots, values, control, seed, shape, bits, most_bits, known, is_shared })
    }

    pub(super) fn buckets(&self) -> u64 {
        1 << self.bits
    }

    /// How many slots there are.
    pub(super) fn capacity(&self) -> u64 {
        self.shape.slots() << self.bits
    }

    /// Bytes that the slots and the values can grow to.
    pub(super) fn most_bytes(&self) -> u64 {
        bucket_bytes(self.shape) << self.most_bits
    }

    /// Bytes that they have.
    pub(super) fn backed(&self) -> usize {
        self.slots.backed() + self.values.as_ref().map_or(0, GrowingBuffer::backed) + self.control.len()
    }

    pub(super) fn reference(&self) -> RawRef {
        RawRef {
            slots: self.slots.ptr(),
            values: self.values.as_ref().map_or(DevicePtr::NULL, |values| values.ptr()),
            control: self.control.ptr(),
            seed: self.seed,
            mask: self.buckets() - 1,
        }
    }

    /// The reference with its types, which are those of the shape, for kernels of others.
    pub(super) fn typed_reference<K: MapKey, V: MapValue>(&self) -> HashMapRef<K, V> {
        debug_assert_eq!(self.shape, Shape::of::<K, V>());
        self.is_shared.store(true, Ordering::Relaxed);
        HashMapRef { raw: self.reference(), of: PhantomData }
    }

    /// The number of keys, whatever streams are doing.
    pub(super) fn len(&self) -> Result<u64> {
        let mut words = [0_u64; COUNT_WORDS];
        self.control.read(0, &mut words)?;
        Ok(sum(&words))
    }

    /// The number of keys after what is in the stream. The host waits for the stream only if a kernel may have changed the number since it last did.
    pub(super) fn len_on(&self, stream: &Stream) -> Result<u64> {
        match self.known {
            Some(length) if !self.is_shared.load(Ordering::Relaxed) => Ok(length),
            _ => Ok(self.counts_on(stream)?.length),
        }
    }

    /// What kernels have counted, after what is in the stream.
    pub(super) fn counts_on(&self, stream: &Stream) -> Result<Counts> {
        let mut words = [0_u64; PENDING_NEXT + 1];
        self.control.read_on(0, &mut words, stream)?;
        Ok(Counts { length: sum(&words[..COUNT_WORDS]), pending: [words[PENDING], words[PENDING_NEXT]] })
    }

    /// Notes the number of keys, or that kernels begin to change it.
    pub(super) fn set_known(&mut self, length: Option<u64>) {
        self.known = length;
    }

    /// Removes all keys, and keeps the memory.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.known = None;
        self.slots.fill_range(0, BUCKET_BYTES << self.bits, 0)?;
        self.control.fill(0)?;
        self.known = Some(0);
        Ok(())
    }

    /// Doubles until this many keys fit, and once at least; says whether it could. Without memory for that it stays as it is, or as far as it came.
    pub(super) fn grow_for(&mut self, keys: u64, kernels: &Kernels, stream: &Stream) -> Result<bool> {
        if keys.saturating_mul(LEAST_SHARE) < self.capacity() {
            return Ok(false);
        }
        let mut has_grown = false;
        loop {
            match self.double(kernels, stream) {
                Ok(true) => has_grown = true,
                Ok(false) => return Ok(has_grown),
                Err(error) if error.is_out_of_memory() => return Ok(has_grown),
                Err(DeviceError::OutOfAddresses { .. }) => return Ok(has_grown),
                Err(error) => return Err(error),
            }
            if fits(keys, self.capacity()) {
                return Ok(true);
            }
        }
    }

    /// Doubles until there is room for this many keys.
    pub(super) fn reserve(&mut self, keys: u64, kernels: &Kernels, stream: &Stream) -> Result<()> {
        while !fits(keys, self.capacity()) {
            if !self.double(kernels, stream)? {
                let asked = u128::from(keys) * self.most_bytes() as u128
                    / u128::from((self.shape.slots() << self.most_bits).max(1));
                let asked = u64::try_from(asked).unwrap_or(u64::MAX);
                return Err(DeviceError::OutOfBudget {
                    asked,
                    left: self.most_bytes() - self.bytes() as u64,
                });
            }
        }
        Ok(())
    }

    /// Bytes of the slots and the values.
    fn bytes(&self) -> usize {
        (BUCKET_BYTES + self.shape.apart_bytes()) << self.bits
    }

    /// Each bucket becomes two; `false` if there are as many as there can be.
    fn double(&mut self, kernels: &Kernels, stream: &Stream) -> Result<bool> {
        if self.bits == self.most_bits {
            return Ok(false);
        }
        // The values first: without memory for the slots nothing has changed.
        if let Some(values) = &mut self.values {
            values.grow(self.shape.apart_bytes() << (self.bits + 1))?;
        }
        self.slots.grow(BUCKET_BYTES << (self.bits + 1))?;
        let slots = self.capacity();
        let params = Doubling { map: self.reference(), slots };
        // SAFETY: there are twice as many slots now; the table is borrowed exclusively until the stream is synchronised.
        unsafe { kernels.double.launch(Grid::covering(slots, THREADS), &params, stream)? };
        stream.synchronize()?;
        self.bits += 1;
        Ok(true)
    }
}
