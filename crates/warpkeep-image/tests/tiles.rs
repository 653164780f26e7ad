//! Blocks in tiles: each has its own bytes, is found again by its name, and by no other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use warpkeep_image::{
    Clear, Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings, Tile,
};

fn image() -> Arc<Image<Coherent>> {
    let memory = PlainMemory::new(2 * MIN_CHUNK, 400 * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let path = Path::new("memory");
    Arc::new(Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default()).unwrap())
}

fn heap() -> Heap<Coherent> {
    recover(&image(), &[]).unwrap()
}

/// Marks exactly these blocks of tiles.
fn recover(image: &Arc<Image<Coherent>>, blocks: &[(u64, Tile)]) -> Result<Heap<Coherent>, ImageError> {
    Heap::recover(image, HeapOptions::default(), |marker| {
        for &(name, tile) in blocks {
            assert!(marker.tiled_block(name, tile)?);
            assert!(!marker.tiled_block(name, tile)?, "the second time it is known");
        }
        Ok(())
    })
}

/// Of every number of blocks, and one that takes several chunks a slab.
fn tiles() -> [Tile; 7] {
    [(128, 32), (256, 64), (128, 96), (4096, 32), (128, 16), (128, 24), (4096, 104)]
        .map(|(value, tail)| Tile::of(value, tail).unwrap())
}

fn bytes_of(number: usize, tile: Tile) -> Vec<u8> {
    (0..tile.block()).map(|at| (number as u8).wrapping_mul(37).wrapping_add(at as u8)).collect()
}

/// The bytes of a block, read from the positions that a tile gives.
fn read(image: &Image<Coherent>, tile: Tile, name: u64) -> Vec<u8> {
    let (mut value, mut tail) = (vec![0; tile.value() as usize], vec![0; tile.tail() as usize]);
    image.read(tile.value_at(name), &mut value);
    image.read(tile.tail_at(name), &mut tail);
    [value, tail].concat()
}

/// `count` blocks of tiles, filled, by number.
fn fill(heap: &Heap<Coherent>, tile: Tile, count: usize) -> Vec<u64> {
    let pool = heap.tiled_pool(tile).unwrap();
    (0..count)
        .map(|number| {
            let mut block = heap.allocate_from(pool).unwrap();
            assert_eq!(block.size(), tile.block());
            let bytes = bytes_of(number, tile);
            // In pieces: some end with the value, one goes beyond it, one begins in the tail.
            let cuts = [0, 8, tile.value() - 8, tile.value() + 16, tile.block()];
            for cut in cuts.windows(2) {
                block.write(cut[0], &bytes[cut[0] as usize..cut[1] as usize]).unwrap();
            }
            assert!(block.write(tile.block() - 4, &[0; 8]).is_err());
            block.persist("test", tile.block())
        })
        .collect()
}

#[test]
fn every_block_has_its_own_bytes() {
    for tile in tiles() {
        let heap = heap();
        let count = 5 * (MIN_CHUNK / tile.block()) as usize / 2 + 3;
        let names = fill(&heap, tile, count);
        for (number, &name) in names.iter().enumerate() {
            assert_eq!(read(heap.image(), tile, name), bytes_of(number, tile), "{tile:?}, {number}");
        }
        assert_eq!(heap.usage().used_blocks(), count as u64);
        for &name in &names {
            for wrong in [name + 1, name + 4, tile.tail_at(name)] {
                assert!(names.contains(&wrong) || heap.free(wrong).is_err(), "{tile:?}: {wrong} for {name}");
            }
        }
        heap.free_many(&names).unwrap();
        assert!(heap.free_many(&names).is_err(), "freed twice");
        assert_eq!(heap.usage().used_blocks(), 0);
    }
}

#[test]
fn half_filled_tiles_are_found_again() {
    for tile in tiles() {
        let heap = heap();
        let names = fill(&heap, tile, 40);
        let kept: BTreeMap<u64, usize> = names
            .iter()
            .enumerate()
            .filter(|(number, _)| number % 3 == 1)
            .map(|(n, &name)| (name, n))
            .collect();
        let image = heap.into_image();
        let blocks: Vec<(u64, Tile)> = kept.keys().map(|&name| (name, tile)).collect();
        let survey = Heap::survey::<ImageError>(&image, |marker| {
            blocks.iter().try_for_each(|&(name, tile)| marker.tiled_block(name, tile).map(|_| ()))
        });
        let heap = recover(&image, &blocks).unwrap();
        assert_eq!(survey.unwrap(), heap.usage());
        assert_eq!(heap.usage().used_blocks(), kept.len() as u64);
        let others = fill(&heap, tile, 60);
        assert!(others.iter().all(|name| !kept.contains_key(name)), "{tile:?}: a block was handed out twice");
        for (&name, &number) in &kept {
            assert_eq!(read(&image, tile, name), bytes_of(number, tile), "{tile:?}, {number}");
        }
    }
}

#[test]
fn many_blocks_and_whole_slabs_come_in_tiles() {
    for tile in tiles() {
        let heap = heap();
        let pool = heap.tiled_pool(tile).unwrap();
        let many = heap.allocate_many(pool, 100).unwrap();
        let (start, count) = heap.allocate_slab(pool).unwrap();
        assert!(count.is_multiple_of(tile.blocks()));
        let slab: Vec<u64> = (0..count).map(|number| tile.name(start, number)).collect();
        let mut all = [many.offsets(), &slab].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len() as u64, 100 + count);
        assert_eq!(heap.usage().used_blocks(), 100 + count);
        heap.free_many(&slab).unwrap();
        drop(many);
        assert_eq!(heap.usage().used_blocks(), 0);
    }
}

#[test]
fn blocks_of_one_size_in_tiles_and_not_keep_apart() {
    let heap = heap();
    let tile = tiles()[0];
    let tiled = fill(&heap, tile, 20);
    let mut plain = heap.allocate_from(heap.pool(tile.block()).unwrap()).unwrap();
    plain.write(0, &[7; 160]).unwrap();
    let plain = plain.persist("test", 160);
    assert!(tiled.iter().all(|name| name / MIN_CHUNK != plain / MIN_CHUNK));
    // One line of the report.
    let usage = heap.usage();
    assert_eq!((usage.classes.len(), usage.classes[0].block, usage.classes[0].used), (1, 160, 21));
    let image = heap.into_image();
    let marked = |mark: &dyn Fn(&warpkeep_image::Marker<'_, Coherent>) -> Result<bool, ImageError>| {
        Heap::survey::<ImageError>(&image, |marker| mark(marker).map(|_| ()))
    };
    assert!(marked(&|marker| marker.tiled_block(tiled[3], tile)).is_ok());
    assert!(marked(&|marker| marker.block(plain, 160)).is_ok());
    // The other way round, of another tile, and invalid names.
    let last = tile.name(tiled[0], MIN_CHUNK / tile.bytes() * tile.blocks());
    let wrong =
        [tiled[3] + 8, tiled[3] - 8, tile.value_at(tiled[3]), tile.tail_at(tiled[0]), last, plain + 8];
    for refused in [
        marked(&|marker| marker.block(tiled[0], 8)),
        marked(&|marker| marker.tiled_block(plain, tile)),
        marked(&|marker| marker.tiled_block(tiled[0], Tile::of(128, 64).unwrap())),
    ]
    .into_iter()
    .chain(wrong.map(|name| marked(&|marker| marker.tiled_block(name, tile))))
    {
        let error = refused.expect_err("it is damage");
        assert!(matches!(error, ImageError::Damaged { .. }), "{error}");
    }
    Heap::survey::<ImageError>(&image, |marker| {
        assert_eq!((marker.block_size(tiled[0]), marker.block_size(plain)), (None, Some(160)));
        Ok(())
    })
    .unwrap();
}

#[test]
fn tiles_are_cleared_block_by_block() {
    for tile in tiles() {
        let heap = heap();
        let names = fill(&heap, tile, 50);
        let (kept, gone): (Vec<usize>, Vec<usize>) = (0..50).partition(|number| number % 4 == 2);
        gone.iter().for_each(|&number| heap.free(names[number]).unwrap());
        let clearing = heap.begin_clearing(Clear::All);
        let mut moved = Vec::new();
        for &number in &kept {
            assert!(clearing.contains(names[number]));
            // SAFETY: no other code has the block.
            let copy = unsafe { clearing.copy_of(names[number]) }.unwrap();
            assert!(!clearing.contains(copy.offset()));
            moved.push(copy.persist("test", tile.block()));
            heap.free(names[number]).unwrap();
        }
        drop(clearing);
        for (&number, &name) in kept.iter().zip(&moved) {
            assert_eq!(read(heap.image(), tile, name), bytes_of(number, tile), "{tile:?}, {number}");
        }
        assert_eq!(heap.usage().used_blocks(), kept.len() as u64);
    }
}

#[test]
fn a_damaged_descriptor_of_tiles_is_noticed() {
    let heap = heap();
    let tile = tiles()[0];
    let name = fill(&heap, tile, 1)[0];
    let image = heap.into_image();
    let at = 20480 + 8 * (name / MIN_CHUNK);
    let good = image.load(at);
    for bit in 0..64 {
        image.store(at, good ^ 1 << bit);
        let error = recover(&image, &[(name, tile)]).err().unwrap_or_else(|| panic!("bit {bit}"));
        assert!(matches!(error, ImageError::Damaged { .. }), "{error}");
    }
    image.store(at, good);
    assert!(recover(&image, &[(name, tile)]).is_ok());
}
