//! The format's promises about a record's bytes, in blocks that held something else before.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::ValueSpec;
use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings,
};
use warpkeep_record::RecordForm;

fn heap() -> Heap<Coherent> {
    let memory = Arc::new(PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK));
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let image =
        Image::format(memory, Coherent, Path::new("memory"), &format, Surroundings::default()).unwrap();
    image.begin(1).unwrap();
    Heap::recover::<ImageError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap()
}

/// Kernels compare and hash keys by whole words.
#[test]
fn behind_a_key_there_are_zeros_to_the_end_of_its_word() {
    let fixed = ValueSpec::fixed(8).unwrap();
    for (form, key_at) in
        [(RecordForm::new(Some(5), fixed), 8), (RecordForm::new(None, ValueSpec::variable(8).unwrap()), 16)]
    {
        let heap = heap();
        let pool = form.pool(&heap).unwrap();
        // All of them are used again.
        let len = form.len(5, 8);
        for _ in 0..2 {
            let allocate = || pool.map_or_else(|| heap.allocate(len), |pool| heap.allocate_from(pool));
            let mut dirty: Vec<_> = (0..100).map(|_| allocate().unwrap()).collect();
            for block in &mut dirty {
                let ones = vec![0xff; block.size() as usize];
                block.write(0, &ones).unwrap();
            }
        }
        let block = form.write(&heap, pool, None, 1, b"quite", &[7; 8]).unwrap();
        let mut word = [1; 8];
        heap.image().read(block.offset() + key_at, &mut word);
        assert_eq!(&word, b"quite\0\0\0", "{form:?}");
    }
}
