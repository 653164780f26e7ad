//! Checksums of records: pinned by vectors, right for written records, and wrong for all other bytes.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use warpkeep_core::{KeyCells, KeySpec, ValueSpec};
use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings,
};
use warpkeep_record::{Damage, Digest, RecordForm, RecordKey, Tiling, checksum};

fn heap() -> Heap<Coherent> {
    let memory = Arc::new(PlainMemory::new(4 * MIN_CHUNK, 64 * MIN_CHUNK));
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let image =
        Image::format(memory, Coherent, Path::new("memory"), &format, Surroundings::default()).unwrap();
    image.begin(1).unwrap();
    Heap::recover::<ImageError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap()
}

fn bytes(len: usize, start: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (start * 31 + at * 7) as u8).collect()
}

/// A second implementation of the function, from the definition in `warpkeep_record::checksum`.
fn by_the_book(key: &[u8], value: &[u8], version: u64) -> u64 {
    let [c29, c31, c37, c41] =
        [0x629A_292A_367C_D507_u64, 0x9159_015A_3070_DD17, 0x152F_ECD8_F70E_5939, 0x6733_2667_FFC0_0B31];
    let scramble = |place: u64, word: u64| {
        let x = (word ^ place).wrapping_mul(c29);
        let x = (x ^ x >> 32).wrapping_mul(c31);
        x ^ x >> 32
    };
    let words = |bytes: &[u8]| -> Vec<u64> {
        let word = |part: &[u8]| part.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        bytes.chunks(8).map(word).collect()
    };
    let sum = |first: u64, words: &[u64]| {
        let place = |number: u64| first.wrapping_add(number.wrapping_mul(c37));
        (0..).zip(words).fold(0_u64, |sum, (number, &word)| sum.wrapping_add(scramble(place(number), word)))
    };
    let of_value = sum(c37, &words(value));
    let digest = (of_value ^ of_value >> 32) & 0xffff_ffff;
    let mut all = vec![digest, key.len() as u64 | (value.len() as u64) << 32, version];
    all.extend(words(key));
    sum(c41, &all)
}

#[test]
fn vectors() {
    for (key, value, version, digest, sum) in [
        (0, 0, 0, 0, 0x8060_8633_85D5_1953),
        (8, 128, 7, 0x63FF_FBEB, 0x7E57_DACF_E6FE_AFAE),
        (13, 5, u64::MAX, 0x035A_8F57, 0x3723_5BFB_CC09_5C6C),
        (63, 1000, 1 << 40, 0xFF27_436F, 0x5332_589A_7FDA_CE56),
    ] {
        let (key, value) = (bytes(key, 3), bytes(value, 5));
        let of_value = Digest::of(&value);
        let found = checksum(of_value, &key, value.len(), version);
        assert_eq!((of_value.0, found), (digest, sum), "{:#x}, {found:#x}", of_value.0);
        assert_eq!(found, by_the_book(&key, &value, version));
    }
}

/// Every kind of record: in one piece and in tiles with every tail, with keys of its own, in cells, or none, and of any lengths.
fn forms() -> Vec<(RecordForm, usize, usize)> {
    let cells = KeyCells::of(KeySpec::variable(20).unwrap()).unwrap();
    let mut forms = Vec::new();
    for (key, value) in
        [(8, 8), (5, 20), (8, 48), (0, 16), (8, 128), (0, 128), (24, 256), (56, 128), (88, 384)]
    {
        let spec = ValueSpec::fixed(value).unwrap();
        let tiling = Tiling::of(Some(key), spec, true);
        forms.push((RecordForm::of(Some(key), spec, tiling, true).unwrap(), key, value as usize));
        forms.push((RecordForm::whole(Some(key), spec, true), key, value as usize));
    }
    for value in [40, 128] {
        let key = RecordKey::Cell(cells);
        forms.push((RecordForm::new(key, ValueSpec::fixed(value).unwrap()), 11, value as usize));
    }
    let any = RecordForm::new(None, ValueSpec::variable(1000).unwrap());
    forms.extend([(any, 0, 0), (any, 3, 5), (any, 16, 300)]);
    forms
}

fn key_len_in(form: RecordForm) -> usize {
    match form {
        RecordForm::Fixed { key, .. } => key,
        RecordForm::Variable { .. } => 1,
    }
}

#[test]
fn what_is_written_is_right_and_every_flipped_bit_of_it_is_found() {
    let (mut flips, mut harmless) = (0, 0);
    for (form, key_len, value_len) in forms() {
        let heap = heap();
        let pool = form.pool(&heap).unwrap();
        // Keys identified by slots are part of the checksum all the same.
        let slot_key = key_len_in(form) == 0;
        let key = bytes(if slot_key { 8 } else { key_len }, 3);
        let value = bytes(value_len, 5);
        let mut blocks: Vec<u64> = Vec::new();
        for number in 0..3 {
            let block = form.write(&heap, pool, None, 7 + number, &key, &value).unwrap();
            blocks.push(block.into_offset());
        }
        let (image, record) = (heap.image(), blocks[1]);
        for &block in &blocks {
            assert_eq!(form.check(image, block, &key), Ok(()), "{form:?}");
        }
        if slot_key {
            let other = bytes(8, 4);
            let found = form.check(image, record, &other);
            assert!(matches!(found, Err(Damage::Checksum { .. })), "the record of another slot's key");
        }
        // The words of the record, value and tail.
        let len = form.len(key_len, value_len);
        let places: Vec<u64> = match form.tile() {
            None => (record..record + len).step_by(8).collect(),
            Some(tile) => {
                let tail = tile.tail_at(record)..tile.tail_at(record) + len - tile.value();
                let value = tile.value_at(record)..tile.value_at(record) + tile.value();
                value.step_by(8).chain(tail.step_by(8)).collect()
            }
        };
        for at in places {
            let word = image.load(at);
            for bit in 0..64 {
                flips += 1;
                image.store(at, word ^ 1 << bit);
                if form.check(image, record, &key).is_ok() {
                    harmless += 1;
                    // The bytes between a value and the word's end are undefined.
                    let value_at = match form {
                        RecordForm::Fixed { .. } => form.value_at(record),
                        RecordForm::Variable { .. } => record + 16 + key_len.next_multiple_of(8) as u64,
                    };
                    let end = value_at + value_len as u64;
                    let byte = at + bit / 8;
                    assert!((end..end.next_multiple_of(8)).contains(&byte), "{form:?}: bit {bit} at {at}");
                }
            }
            image.store(at, word);
        }
        assert_eq!(form.check(image, record, &key), Ok(()));
    }
    writeln!(
        std::io::stdout().lock(),
        "record checksums: {flips} flips, {harmless} of bytes that nothing reads"
    )
    .unwrap();
}

/// Two words changed by equal amounts: a sum of products alone would not detect that.
#[test]
fn two_changes_do_not_make_up_for_each_other() {
    let value = bytes(256, 9);
    let whole = Digest::of(&value);
    let mut pairs = 0;
    for bit in 0..64 {
        for (one, other) in (0..32).flat_map(|one| (one + 1..32).map(move |other| (one, other))) {
            let mut damaged = value.clone();
            damaged[8 * one + bit / 8] ^= 1 << (bit % 8);
            damaged[8 * other + bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Digest::of(&damaged), whole, "bit {bit} of words {one} and {other}");
            pairs += 1;
        }
    }
    for (one, other) in (0..32).flat_map(|one| (one + 1..32).map(move |other| (one, other))) {
        let mut swapped = value.clone();
        let (before, after) = swapped.split_at_mut(8 * other);
        before[8 * one..8 * one + 8].swap_with_slice(&mut after[..8]);
        assert_ne!(Digest::of(&swapped), whole, "words {one} and {other} swapped");
    }
    assert_eq!(pairs, 64 * 31 * 16);
    assert_ne!(checksum(Digest::of(&[]), &[], 0, 0), 0, "zeros are no record");
}

#[test]
fn offsets_that_lead_nowhere_are_told() {
    let heap = heap();
    let end = heap.image().len();
    for (form, ..) in forms() {
        for offset in [0, 4, 8, 4100, end - 8, end, end + 8, u64::MAX - 7, 1 << 47] {
            // No record was written at any of these offsets.
            assert!(form.check(heap.image(), offset, &[0; 8]).is_err(), "{form:?} at {offset}");
        }
    }
    let old = RecordForm::whole(Some(8), ValueSpec::fixed(16).unwrap(), false);
    assert_eq!(old.check(heap.image(), 4096, &[]), Ok(()), "without a checksum there is nothing to tell by");
    assert_eq!(old.check(heap.image(), end - 8, &[]), Err(Damage::NoRecord));
}
