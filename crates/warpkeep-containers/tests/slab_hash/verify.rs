//! Damaged memory is noticed.

use warpkeep_containers::{
    ContainerError, SlabHashOptions, SlabMap, SlabMultiMap, SlabMultiRequest, SlabRequest, SlabSet,
    SlabTableRef,
};
use warpkeep_device::{Device, DevicePtr};

use crate::device;

/// A table in device memory that tests damage: four buckets, all of which have chains of several slabs of 64 bytes.
struct Victim<'a> {
    device: Device,
    verify: &'a dyn Fn() -> Result<(), ContainerError>,
    /// The first slabs, the units and the bitmap of their pool, its counters, and those of the table.
    first: u64,
    units: u64,
    bitmap: u64,
    pool_counters: u64,
    counters: u64,
    /// Bytes of a cell, and where in it the bits begin that say what it is.
    cell: u64,
    flags: u64,
}

impl<'a> Victim<'a> {
    fn new(
        device: &Device,
        reference: SlabTableRef,
        (cell, flags): (u64, u64),
        verify: &'a dyn Fn() -> Result<(), ContainerError>,
    ) -> Self {
        let word = |at: usize| {
            let bytes = &bytemuck::bytes_of(&reference)[8 * at..][..8];
            u64::from_le_bytes(bytes.try_into().unwrap())
        };
        let [first, units, bitmap] = [0, 1, 2].map(word);
        // There are three levels of bitmaps, and two numbers of 32 bits behind the pool's counters.
        let (pool_counters, counters) = (word(5), word(7));
        Self { device: device.clone(), verify, first, units, bitmap, pool_counters, counters, cell, flags }
    }

    fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize) {
        let stream = self.device.stream().unwrap();
        // SAFETY: both are addresses of the table or of a column, and no call of the table runs.
        unsafe { self.device.copy_raw(to, from, bytes, &stream).unwrap() };
        stream.synchronize().unwrap();
    }

    fn read(&self, at: u64, bytes: u64) -> Vec<u8> {
        let column = self.device.allocate(bytes as usize).unwrap();
        self.copy(column.ptr(), DevicePtr::new(at), bytes as usize);
        column.to_vec::<u8>().unwrap()
    }

    fn word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at, 4).try_into().unwrap())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let column = self.device.upload(bytes).unwrap();
        self.copy(DevicePtr::new(at), column.ptr(), bytes.len());
    }

    /// Writes these bytes, sees what is said, and repairs it.
    fn damage(&self, at: u64, bytes: &[u8], said: &str) {
        let was = self.read(at, bytes.len() as u64);
        self.write(at, bytes);
        let error = (self.verify)().unwrap_err();
        assert!(matches!(error, ContainerError::Inconsistent { .. }), "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        self.write(at, &was);
        (self.verify)().unwrap();
    }

    fn damage_word(&self, at: u64, word: u32, said: &str) {
        self.damage(at, &word.to_le_bytes(), said);
    }

    /// Every kind of damage.
    fn damage_all(&self, unique: bool) {
        (self.verify)().unwrap();
        let (cell, link) = (self.cell, self.first + 64 - self.cell);
        let unit = u64::from(self.word(link) - 1);
        let second = self.units + 64 * unit;
        let key = self.read(self.first, cell);
        let nothing = vec![0; cell as usize];
        if unique {
            self.damage(self.first + cell, &key, "a key that another has");
            self.damage(second, &key, "a key that another has");
        }
        self.damage(self.first, &nothing, "behind an empty one");
        // A cell without the bit that every key sets.
        let flags = self.first + self.flags;
        self.damage_word(flags, self.word(flags) & !1, "neither empty nor");
        self.damage_word(link, 1_000_000, "lead to no slab");
        // To the chain of the next bucket, back to where it comes from, and to nothing.
        self.damage(link, &self.read(link + 64, cell), "that another one leads to");
        self.damage(second + 64 - cell, &self.read(link, cell), "that another one leads to");
        self.damage(link, &nothing, "slabs that are taken and those of chains");
        // The pool's bitmap: a slab of a chain is free, or one of no chain is taken.
        let bits = self.bitmap + unit / 32 * 4;
        self.damage_word(bits, self.word(bits) & !(1 << (unit % 32)), "free in the pool");
        let free = (0..32).map(|word| self.bitmap + 4 * word).find(|at| self.word(*at) == 0).unwrap();
        self.damage_word(free, 1 << 7, "slabs that are taken and those of chains");
        self.damage_word(self.pool_counters, self.word(self.pool_counters) + 1, "and their count");
        self.damage_word(self.counters, self.word(self.counters) + 1, "the length and the keys");
        self.damage_word(self.counters + 8, self.word(self.counters + 8) + 1, "the tombstones and their");
        (self.verify)().unwrap();
    }
}

fn crowded() -> SlabHashOptions {
    SlabHashOptions { most_buckets: 4, slab_bytes: 64, seed: Some(0), ..SlabHashOptions::default() }
}

#[test]
fn every_kind_of_damage_to_a_map_is_noticed() {
    let device = device();
    let mut map: SlabMap = SlabMap::new(&device, crowded()).unwrap();
    map.apply(&(0..200).map(|key| SlabRequest::Insert(key, key)).collect::<Vec<_>>()).unwrap();
    map.apply(&(0..30).map(SlabRequest::Delete).collect::<Vec<_>>()).unwrap();
    Victim::new(&device, map.reference().unwrap(), (8, 4), &|| map.verify()).damage_all(true);
    let mut wide = SlabMap::<u64, u64>::new(&device, crowded()).unwrap();
    wide.apply(&(0..90).map(|key| SlabRequest::Insert(!key, key)).collect::<Vec<_>>()).unwrap();
    let verify = || wide.verify();
    let victim = Victim::new(&device, wide.reference().unwrap(), (16, 0), &verify);
    victim.damage_all(true);
    // An empty cell and the end of a chain are all zeros: a swap of sixteen bytes finds no other.
    let (mut slab, link) = (victim.first, 48);
    while victim.word(slab + link) > 0 {
        slab = victim.units + 64 * u64::from(victim.word(slab + link) - 1);
    }
    victim.damage_word(slab + link + 8, 5, "lead to no slab");
}

#[test]
fn every_kind_of_damage_to_a_set_is_noticed() {
    let device = device();
    let mut set: SlabSet = SlabSet::new(&device, crowded()).unwrap();
    set.insert(&(0..300).collect::<Vec<_>>()).unwrap();
    set.remove(&(0..30).collect::<Vec<_>>()).unwrap();
    Victim::new(&device, set.reference().unwrap(), (4, 0), &|| set.verify()).damage_all(true);
    let mut wide = SlabSet::<u64>::new(&device, crowded()).unwrap();
    wide.insert(&(0..200).collect::<Vec<_>>()).unwrap();
    Victim::new(&device, wide.reference().unwrap(), (8, 0), &|| wide.verify()).damage_all(true);
}

#[test]
fn every_kind_of_damage_to_a_multimap_is_noticed() {
    let device = device();
    let mut map: SlabMultiMap = SlabMultiMap::new(&device, crowded()).unwrap();
    map.apply(&(0..200).map(|i| SlabMultiRequest::Insert(i % 50, i)).collect::<Vec<_>>()).unwrap();
    map.apply(&(0..30).map(SlabMultiRequest::Delete).collect::<Vec<_>>()).unwrap();
    Victim::new(&device, map.reference().unwrap(), (8, 4), &|| map.verify()).damage_all(false);
}

#[test]
fn a_key_of_another_bucket_and_a_value_without_its_key_are_noticed() {
    let device = device();
    let options = SlabHashOptions { capacity: 5000, seed: Some(0), ..SlabHashOptions::default() };
    let mut map: SlabMap = SlabMap::new(&device, options).unwrap();
    map.apply(&(0..4000).map(|key| SlabRequest::Insert(key, key)).collect::<Vec<_>>()).unwrap();
    let verify = || map.verify();
    let victim = Victim::new(&device, map.reference().unwrap(), (8, 4), &verify);
    // With 1024 buckets a quotient has 22 bits, in the highest 30 of the cell.
    victim.damage_word(victim.first + 4, victim.word(victim.first + 4) | 1 << 31, "neither empty nor");
    let full = (0..1024).map(|bucket| victim.first + 64 * bucket);
    let empty = full.map(|slab| slab + 6 * 8).find(|cell| victim.word(cell + 4) == 0).unwrap();
    victim.damage_word(empty, 7, "neither empty nor");
}

#[test]
fn tables_on_the_cpu_are_sound() {
    let mut map: SlabMap = SlabMap::on_cpu(crowded());
    map.apply(&[SlabRequest::Insert(1, 2), SlabRequest::Replace(1, 3), SlabRequest::Delete(7)]).unwrap();
    map.verify().unwrap();
    let mut multi: SlabMultiMap = SlabMultiMap::on_cpu(crowded());
    multi.apply(&[SlabMultiRequest::Insert(1, 2), SlabMultiRequest::Insert(1, 2)]).unwrap();
    multi.apply(&[SlabMultiRequest::DeleteAll(1), SlabMultiRequest::Delete(1)]).unwrap();
    multi.verify().unwrap();
    let mut set: SlabSet = SlabSet::on_cpu(crowded());
    set.insert(&[1, 1, 2]).unwrap();
    set.verify().unwrap();
}
