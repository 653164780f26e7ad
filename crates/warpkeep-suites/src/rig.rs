//! A table in plain memory, and the simplest way to write to it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, Persist, PlainMemory, Surroundings,
};
use warpkeep_record::{Full as _, Kept, Lookup, Staged as _, Staging};

/// Readers that are held up longer than this count as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A heap in plain memory with at most `max_chunks` chunks.
pub fn heap(max_chunks: u64) -> Arc<Heap<Coherent>> {
    let memory = PlainMemory::new(4 * MIN_CHUNK, max_chunks * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let path = Path::new("memory");
    let image = Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default());
    let image = Arc::new(image.expect("an image"));
    image.begin(1).expect("begun");
    Arc::new(Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(())).expect("a heap"))
}

/// Opens a table again as after a crash: no state of the running process is kept.
///
/// # Panics
/// If it cannot be opened.
pub fn reopen<P: Persist, T: Kept<P, Error: From<ImageError>>>(table: T) -> T {
    let (header, image) = (table.header(), Arc::clone(table.heap().image()));
    drop(table);
    let heap =
        Heap::recover::<T::Error>(&image, HeapOptions::default(), |marker| T::mark(&image, marker, header));
    let heap = heap.unwrap_or_else(|error| panic!("{error}"));
    T::attach(&Arc::new(heap), header).unwrap_or_else(|error| panic!("{error}"))
}

/// Puts, growing if need be; whether the key is new.
pub fn put<P: Persist, T: Staging<P>>(
    table: &T,
    key: &[u8],
    value: &[u8],
    version: u64,
) -> Result<bool, T::Error> {
    let lock = table.lock_key(key);
    loop {
        let mut stage = table.stage([lock]);
        let seat = stage.seat(key, lock);
        let is_new = seat.version().is_none();
        match stage.put(&seat, key, value, version) {
            Ok(()) => {
                stage.publish();
                return Ok(is_new);
            }
            Err(error) if error.is_full() => {
                let seen = stage.seen();
                drop(stage);
                table.make_room(seen)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Removes a key; whether it was there.
pub fn remove<P: Persist, T: Staging<P>>(table: &T, key: &[u8]) -> bool {
    let lock = table.lock_key(key);
    let mut stage = table.stage([lock]);
    let seat = stage.seat(key, lock);
    let was_there = stage.remove(&seat);
    stage.publish();
    was_there
}

/// Version and value of a key.
pub fn get<P: Persist, T: Lookup<P>>(table: &T, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    table.get(key, |value| (value.version(), value.to_vec()))
}

/// Waits until a condition holds that requires a heap's replaced records to be freed: when its last readers have moved on.
pub fn settled<P: Persist>(heap: &Heap<P>, done: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        heap.reclaim();
        if done() {
            return true;
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
        // The thread that is waited for may need this very core.
        std::thread::yield_now();
    }
}
