//! The heap against a plain map, from many threads, to the brim, and with wrong callers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, ImageError, MAX_BLOCK, MIN_CHUNK, PlainMemory, Surroundings,
    size_class,
};

fn image(chunks: u64, max_chunks: u64) -> Arc<Image<Coherent>> {
    let memory = PlainMemory::new(chunks * MIN_CHUNK, max_chunks * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let path = Path::new("memory");
    Arc::new(Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default()).unwrap())
}

fn heap(chunks: u64, max_chunks: u64) -> Heap<Coherent> {
    Heap::recover::<ImageError>(&image(chunks, max_chunks), HeapOptions::default(), |_| Ok(())).unwrap()
}

/// Marks exactly these blocks and extents.
fn recover(
    image: &Arc<Image<Coherent>>,
    blocks: &HashMap<u64, u64>,
    extents: &HashMap<u64, u64>,
) -> Heap<Coherent> {
    Heap::recover::<ImageError>(image, HeapOptions::default(), |marker| {
        for (&offset, &len) in blocks {
            assert!(marker.block(offset, len)?);
            assert!(!marker.block(offset, len)?, "the second time it is known");
        }
        for (&offset, &len) in extents {
            assert!(marker.extent(offset, len)?);
        }
        Ok(())
    })
    .unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Block(u64),
    Fixed(u64),
    Extent(u64),
    Free(usize),
    FreeExtent(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..5000_u64).prop_map(Step::Block),
        1 => (60_000..300_000_u64).prop_map(Step::Block),
        3 => (1..40_u64).prop_map(|words| Step::Fixed(words * 8)),
        1 => (1..5 * MIN_CHUNK).prop_map(Step::Extent),
        5 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeExtent),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn agrees_with_a_plain_map(steps in proptest::collection::vec(step(), 1..150)) {
        let image = image(2, 4000);
        let mut heap = recover(&image, &HashMap::new(), &HashMap::new());
        let (mut blocks, mut extents) = (HashMap::new(), HashMap::new());
        let mut fill = 0_u8;
        let mut fills = HashMap::new();
        for step in steps {
            match step {
                Step::Block(bytes) | Step::Fixed(bytes) => {
                    let mut block = match step {
                        Step::Fixed(_) => heap.allocate_from(heap.pool(bytes).unwrap()).unwrap(),
                        _ => heap.allocate(bytes).unwrap(),
                    };
                    fill = fill.wrapping_add(1);
                    block.write(0, &vec![fill; bytes as usize]).unwrap();
                    fills.insert(block.offset(), fill);
                    blocks.insert(block.persist("test", bytes), bytes);
                }
                Step::Extent(bytes) => {
                    extents.insert(heap.allocate_extent(bytes).unwrap(), bytes);
                }
                Step::Free(pick) if !blocks.is_empty() => {
                    let mut offsets: Vec<u64> = blocks.keys().copied().collect();
                    offsets.sort_unstable();
                    let offset = offsets[pick % offsets.len()];
                    blocks.remove(&offset);
                    heap.free(offset).unwrap();
                    prop_assert!(heap.free(offset).is_err(), "freed twice");
                }
                Step::FreeExtent(pick) if !extents.is_empty() => {
                    let mut offsets: Vec<u64> = extents.keys().copied().collect();
                    offsets.sort_unstable();
                    let offset = offsets[pick % offsets.len()];
                    extents.remove(&offset);
                    heap.free_extent(offset).unwrap();
                    prop_assert!(heap.free_extent(offset).is_err(), "freed twice");
                }
                Step::Reopen => {
                    let before = heap.usage();
                    let survey = Heap::survey::<ImageError>(&image, |marker| {
                        blocks.iter().try_for_each(|(&offset, &len)| marker.block(offset, len).map(|_| ()))?;
                        extents.iter().try_for_each(|(&offset, &len)| marker.extent(offset, len).map(|_| ()))
                    });
                    let survey = survey.unwrap();
                    heap = recover(&image, &blocks, &extents);
                    prop_assert_eq!(heap.usage().used_bytes(), before.used_bytes());
                    prop_assert_eq!(survey, heap.usage());
                    prop_assert!(heap.usage().free_chunks >= before.free_chunks);
                }
                Step::Free(_) | Step::FreeExtent(_) => {}
            }
            // No block overlaps another.
            let mut ranges: Vec<(u64, u64)> = blocks.iter().chain(&extents).map(|(&o, &l)| (o, o + l)).collect();
            ranges.sort_unstable();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "overlap");
            let usage = heap.usage();
            prop_assert_eq!(usage.used_blocks(), blocks.len() as u64);
            prop_assert_eq!(usage.extents, extents.len() as u64);
        }
        for (&offset, &len) in &blocks {
            let mut bytes = vec![0; len as usize];
            heap.image().read(offset, &mut bytes);
            prop_assert!(bytes.iter().all(|&b| b == fills[&offset]));
        }
        // Everything can be freed, and then every chunk but the directory is free after a reopening.
        for &offset in blocks.keys() {
            heap.free(offset).unwrap();
        }
        for &offset in extents.keys() {
            heap.free_extent(offset).unwrap();
        }
        drop(heap);
        let usage = recover(&image, &HashMap::new(), &HashMap::new()).usage();
        prop_assert_eq!(usage.free_chunks + usage.directory_chunks, usage.chunks);
    }
}

#[test]
fn threads_never_share_a_block() {
    let heap = heap(2, 2000);
    let threads = 8_u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let heap = &heap;
            scope.spawn(move || {
                let mut held: Vec<(u64, u64)> = Vec::new();
                let mut state = thread + 1;
                for round in 0..4000_u64 {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if state >> 62 == 0 && !held.is_empty() {
                        let (offset, stamp) = held.swap_remove((state >> 20) as usize % held.len());
                        assert_eq!(
                            heap.image().load(offset),
                            stamp,
                            "another writer wrote into a block of ours"
                        );
                        heap.free(offset).unwrap();
                    } else if held.len() < 500 {
                        let mut block = heap.allocate(16 << (state >> 40 & 3)).unwrap();
                        let stamp = thread << 32 | round;
                        block.write(0, &stamp.to_le_bytes()).unwrap();
                        held.push((block.into_offset(), stamp));
                    }
                }
                for (offset, stamp) in held {
                    assert_eq!(heap.image().load(offset), stamp);
                    heap.free(offset).unwrap();
                }
            });
        }
    });
    assert_eq!(heap.usage().used_blocks(), 0);
}

#[test]
fn a_full_heap_says_so_and_stays_good() {
    let heap = heap(2, 6);
    let mut offsets = Vec::new();
    let error = loop {
        match heap.allocate(1000) {
            Ok(block) => offsets.push(block.into_offset()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ImageError::OutOfSpace { .. }), "{error}");
    assert!(error.to_string().contains("raise its limit"), "{error}");
    assert_eq!(
        offsets.len() as u64,
        5 * (MIN_CHUNK / 1024),
        "every block of five chunks, the sixth is the header"
    );
    heap.free(offsets.pop().unwrap()).unwrap();
    let again = heap.allocate(1000).unwrap();
    assert!(heap.allocate(1000).is_err());
    drop(again);
    assert!(heap.allocate(1000).is_ok(), "a dropped block is free again");
    // Blocks that another thread left over are found before giving up.
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(heap.allocate(1000).is_ok()));
    });
    // Space freed in one size can be used for another.
    for offset in offsets {
        heap.free(offset).unwrap();
    }
    assert!(heap.allocate(20_000).is_ok());
}

#[test]
fn what_was_freed_in_one_size_is_there_for_every_other() {
    let heap = heap(8, 8);
    // Far more sizes than chunks, one after the other: each would keep an empty slab for itself.
    for round in 0..3 {
        for bytes in (1..40).map(|step| step * 640) {
            let block =
                heap.allocate(bytes).unwrap_or_else(|error| panic!("{bytes} bytes, {round}: {error}"));
            heap.free(block.into_offset()).unwrap();
        }
    }
    let extent = heap.allocate_extent(6 * MIN_CHUNK).unwrap();
    heap.free_extent(extent).unwrap();
}

#[test]
fn wrong_callers_get_errors() {
    let heap = heap(4, 8);
    let mut block = heap.allocate(100).unwrap();
    let size = block.size();
    assert!(matches!(block.write(size - 1, &[0; 2]), Err(ImageError::Invalid(_))));
    assert!(matches!(block.write(u64::MAX, &[0; 2]), Err(ImageError::Invalid(_))));
    let offset = block.into_offset();
    for wrong in [0, 8, offset + 8, offset + size, 3 * MIN_CHUNK, 1 << 60] {
        assert!(matches!(heap.free(wrong), Err(ImageError::Invalid(_))), "{wrong}");
        assert!(matches!(heap.free_extent(wrong), Err(ImageError::Invalid(_))), "{wrong}");
    }
    assert!(matches!(heap.allocate(MAX_BLOCK + 1), Err(ImageError::Invalid(_))));
    assert!(matches!(heap.pool(MAX_BLOCK + 1), Err(ImageError::Invalid(_))));
    assert!(matches!(
        heap.allocate_extent(1 << 62),
        Err(ImageError::OutOfSpace { .. } | ImageError::Invalid(_))
    ));
}

#[test]
fn marks_that_make_no_sense_are_damage() {
    let image = image(8, 8);
    let heap = recover(&image, &HashMap::new(), &HashMap::new());
    let block = heap.allocate(100).unwrap().into_offset();
    let extent = heap.allocate_extent(2 * MIN_CHUNK).unwrap();
    drop(heap);
    Heap::recover::<ImageError>(&image, HeapOptions::default(), |marker| {
        assert_eq!(marker.block_size(block), size_class(100));
        assert_eq!(marker.block_size(block + 8), None);
        let damaged = |result: Result<bool, ImageError>| matches!(result, Err(ImageError::Damaged { .. }));
        assert!(damaged(marker.block(block + 8, 8)));
        assert!(damaged(marker.block(block, 1000)));
        assert!(damaged(marker.block(extent, 8)));
        assert!(damaged(marker.block(0, 8)));
        assert!(damaged(marker.block(1 << 60, 8)));
        assert!(damaged(marker.extent(block, 8)));
        assert!(damaged(marker.extent(extent + MIN_CHUNK, 8)));
        assert!(damaged(marker.extent(extent, 3 * MIN_CHUNK)));
        Ok(())
    })
    .map(|heap| assert_eq!(heap.usage().used_blocks(), 0))
    .unwrap();
}

#[test]
fn usage_tells_classes_apart() {
    let heap = heap(2, 100);
    let held: Vec<_> = [10, 10, 300, 5000].into_iter().map(|bytes| heap.allocate(bytes).unwrap()).collect();
    let usage = heap.usage();
    let seen: Vec<(u64, u64)> = usage.classes.iter().map(|class| (class.block, class.used)).collect();
    assert_eq!(seen, [(16, 2), (320, 1), (5120, 1)]);
    assert_eq!(usage.used_bytes(), 32 + 320 + 5120);
    assert!(usage.to_string().contains("5120"));
    drop(held);
}

#[test]
fn many_blocks_are_taken_and_given_back_together() {
    let image = image(2, 400);
    let heap = recover(&image, &HashMap::new(), &HashMap::new());
    let pool = heap.pool(144).unwrap();
    let before = heap.usage().used_blocks();
    let kept = {
        let mut blocks = heap.allocate_many(pool, 5000).unwrap();
        let mut offsets = blocks.offsets().to_vec();
        assert_eq!(heap.usage().used_blocks(), before + 5000);
        offsets.sort_unstable();
        assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] >= 144), "two in one place");
        (0..5000).step_by(5).map(|index| blocks.hand_over(index)).collect::<Vec<_>>()
    };
    // Blocks that were not handed over are free again.
    assert_eq!(heap.usage().used_blocks(), before + 1000);
    assert!(heap.free_many(&[kept[0], kept[0], kept[1]]).is_err(), "freed twice");
    assert_eq!(heap.usage().used_blocks(), before + 998, "an error does not keep the others");
    heap.free_many(&kept[2..]).unwrap();
    assert_eq!(heap.usage().used_blocks(), before);
    // More than fits: none are allocated.
    assert!(heap.allocate_many(pool, 2_000_000).is_err());
    assert_eq!(heap.usage().used_blocks(), before);
    assert_eq!(heap.allocate_many(pool, 0).map(|none| none.offsets().len()).unwrap(), 0);
}
