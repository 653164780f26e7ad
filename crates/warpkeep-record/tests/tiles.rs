//! Records in tiles: values begin at a line, neighbours are not touched, and reads return the written bytes.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::ValueSpec;
use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings, Tile,
};
use warpkeep_record::{RecordForm, Tiling, Value};

fn heap() -> Heap<Coherent> {
    let memory = Arc::new(PlainMemory::new(4 * MIN_CHUNK, 64 * MIN_CHUNK));
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let image =
        Image::format(memory, Coherent, Path::new("memory"), &format, Surroundings::default()).unwrap();
    image.begin(1).unwrap();
    Heap::recover::<ImageError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap()
}

fn form(key: usize, value: u32) -> RecordForm {
    RecordForm::new(Some(key), ValueSpec::fixed(value).unwrap())
}

fn key_of(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number * 7 + at) as u8 | 1).collect()
}

fn value_of(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number * 31 + at) as u8).collect()
}

#[test]
fn records_read_as_they_were_written() {
    // Tails of 16, 24, 32, 40, 64, 72 and 96 bytes, and keys that do not end with a word.
    for (key_len, value_len, blocks) in
        [(0, 128, 8), (8, 128, 16), (10, 128, 4), (21, 256, 16), (32, 128, 2), (50, 384, 16), (70, 128, 4)]
    {
        let (heap, form) = (heap(), form(key_len, value_len as u32));
        assert_eq!(form.tile().map(Tile::blocks), Some(blocks), "{key_len}, {value_len}");
        let pool = form.pool(&heap).unwrap();
        // The old contents are not zero.
        let mut dirty: Vec<_> = (0..150).map(|_| heap.allocate_from(pool.unwrap()).unwrap()).collect();
        for block in &mut dirty {
            let ones = vec![0xff; block.size() as usize];
            block.write(0, &ones).unwrap();
        }
        drop(dirty);
        let write = |number| {
            let (key, value) = (key_of(number, key_len), value_of(number, value_len));
            form.write(&heap, pool, None, number + 1, &key, &value).unwrap().into_offset()
        };
        let records: Vec<u64> = (0..150).map(write).collect();
        for (number, &offset) in (0..).zip(&records) {
            let record = form.at(heap.image(), offset);
            assert!(form.value_at(offset).is_multiple_of(128));
            assert!(record.has_key(heap.image(), &key_of(number, key_len)));
            assert!(key_len == 0 || !record.has_key(heap.image(), &key_of(number + 1, key_len)));
            let mut key = Vec::new();
            record.append_key(heap.image(), &mut key);
            assert_eq!(key, key_of(number, key_len));
            let item = record.item();
            let value = Value::new(heap.image(), item);
            assert_eq!((item.version, value.to_vec()), (number + 1, value_of(number, value_len)));
            if !key_len.is_multiple_of(8) {
                let at = form.tile().unwrap().tail_at(offset) + key_len as u64 / 8 * 8;
                let last = heap.image().load(at);
                assert_eq!(last >> (8 * (key_len % 8)), 0, "zeros behind the key");
            }
        }
    }
}

#[test]
fn only_new_tables_and_values_that_gain_by_it_have_tiles() {
    let lengths = |form| match form {
        RecordForm::Fixed { key, value, block, .. } => (key, value, block),
        RecordForm::Variable { .. } => panic!("both are fixed"),
    };
    for (key, value) in [(8, 128), (8, 100), (8, 64), (8, 160), (120, 128), (200, 128), (8, 8192)] {
        let whole = RecordForm::whole(Some(key), ValueSpec::fixed(value).unwrap(), true);
        assert_eq!(whole.tile(), None);
        let (is, was) = (lengths(form(key, value)), lengths(whole));
        assert_eq!((is.0, is.1), (was.0, was.1));
        // In a tile a block is shorter, if anything.
        assert!(is.2 <= was.2 && is.2 >= whole.len(key, value as usize), "{key}, {value}");
        assert_eq!(form(key, value).tile().is_some(), (key, value) == (8, 128), "{key}, {value}");
    }
    assert!(RecordForm::new(None, ValueSpec::fixed(128).unwrap()).tile().is_none());
}

#[test]
fn tables_stay_as_they_were_made() {
    let value = ValueSpec::fixed(128).unwrap();
    // Without checksums, and with them.
    for (key, tiling, blocks) in [
        (8, Tiling::None, [Some(160), Some(160)]),
        (8, Tiling::Roomy, [Some(160), Some(160)]),
        (8, Tiling::Close, [Some(144), Some(152)]),
        (0, Tiling::Close, [Some(144), Some(144)]),
        (16, Tiling::Roomy, [Some(160), Some(160)]),
        (16, Tiling::Close, [None, None]),
        (24, Tiling::Roomy, [Some(160), Some(168)]),
        (32, Tiling::Roomy, [Some(192), Some(192)]),
        (56, Tiling::Roomy, [Some(192), Some(200)]),
        (88, Tiling::Roomy, [Some(224), Some(232)]),
    ] {
        for (checksum, block) in [false, true].into_iter().zip(blocks) {
            let form = RecordForm::of(Some(key), value, tiling, checksum);
            assert_eq!(form.map(RecordForm::block_len), block, "{key}, {tiling:?}, {checksum}");
            assert!(form.is_none_or(|form| form.tile().is_some() == (tiling != Tiling::None)));
        }
    }
    // In one piece: the cost of a checksum.
    for (value, blocks) in
        [(16, [32, 40]), (40, [64, 64]), (48, [64, 80]), (100, [128, 128]), (112, [128, 144])]
    {
        let value = ValueSpec::fixed(value).unwrap();
        let found = [false, true].map(|checksum| RecordForm::whole(Some(8), value, checksum).block_len());
        assert_eq!(found, blocks, "{value:?}");
    }
    for checksum in [false, true] {
        let new = [8, 16, 120].map(|key| Tiling::of(Some(key), value, checksum));
        assert_eq!(new, [Tiling::Close, Tiling::Roomy, Tiling::None]);
    }
    for tiling in [Tiling::None, Tiling::Roomy, Tiling::Close] {
        assert_eq!(Tiling::from_code(tiling.code() | 0x3f), Some(tiling));
    }
    assert_eq!(Tiling::from_code(0x40), None);
}

#[test]
fn lines_to_fetch_are_those_of_value_and_tail() {
    let heap = heap();
    for (value, lines) in [(128, 3), (4096, 5), (100, 3)] {
        let form = form(8, value);
        let block = heap.allocate_from(form.pool(&heap).unwrap().unwrap()).unwrap();
        let fetched = std::cell::RefCell::new(Vec::new());
        form.lines().fetch(heap.image(), block.offset(), |line| fetched.borrow_mut().push(line as usize));
        let fetched = fetched.into_inner();
        assert_eq!(fetched.len(), lines, "{form:?}");
        let Some(tile) = form.tile() else { continue };
        let start = heap.image().pointer(0, 8) as usize as u64;
        assert_eq!(fetched[0] as u64 - start, tile.tail_at(block.offset()));
        assert_eq!(fetched[1] as u64 - start, tile.value_at(block.offset()));
    }
    // A prefetch may follow a word that is being changed: that must be harmless.
    let lines = form(8, 128).lines();
    for offset in [0, 8, 120, 4096 + 56, heap.image().len() - 8] {
        lines.fetch(heap.image(), offset, |_| {});
    }
}
