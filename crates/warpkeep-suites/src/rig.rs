//! A table in plain memory, and the simplest way to write to it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpkeep_image::{
    Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, Persist, PlainMemory, Surroundings,
};
use warpkeep_record::{Full as _, Kept, Lookup, Seated as _, Staged as _, Staging};

/// Readers that are held up longer than this count as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A heap in plain memory that may come to have so many chunks.
pub fn heap(max_chunks: u64) -> Arc<Heap<Coherent>> {
    let memory = PlainMemory::new(4 * MIN_CHUNK, max_chunks * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let path = Path::new("memory");
    let image = Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default());
    let image = Arc::new(image.expect("an image"));
    image.begin(1).expect("begun");
    Arc::new(Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(())).expect("a heap"))
}

/// Whether a test, by its whole name, is alone in its process, where nobody else reads; otherwise it has just been run in one of its own.
///
/// # Panics
/// If it failed there.
pub fn is_alone(test: &str) -> bool {
    const ALONE: &str = "WARPKEEP_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(program);
    let output = child.args(["--exact", test]).env(ALONE, "1").output().expect("a process");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// Opens a table again as after a crash: nothing of the running process is left.
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
    let hash = table.hash_of(key);
    loop {
        let mut stage = table.stage([hash]);
        let seat = stage.seat(key, hash);
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
    let hash = table.hash_of(key);
    let mut stage = table.stage([hash]);
    let seat = stage.seat(key, hash);
    let was_there = stage.remove(&seat);
    stage.publish();
    was_there
}

/// Version and value of a key.
pub fn get<P: Persist, T: Lookup<P>>(table: &T, key: &[u8]) -> Option<(u64, Vec<u8>)> {
    table.get(key, |value| (value.version(), value.to_vec()))
}

/// Whether something comes true once what was replaced is freed: when the last readers have moved on, also those of other
/// tests beside this one.
pub fn settled(done: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        warpkeep_record::hasten_freeing();
        if done() {
            return true;
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
        // Whoever is in the way may be waiting for this very core.
        std::thread::yield_now();
    }
}
