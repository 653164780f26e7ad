//! What an image stores, which bytes it trusts, and what it refuses.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::Lsn;
use warpkeep_image::{
    Access, Attached, Attachment, Backing, Coherent, CreateOptions, Format, Heap, HeapOptions, Identity,
    Image, ImageError, MIN_CHUNK, OpenOptions, PENDING_COUNT, Persist, PlainMemory, ROOT_COUNT, Surroundings,
};

const FORMAT: Format = Format { store_id: [4; 16], chunk_size: MIN_CHUNK, hash_seed: 11 };

fn here() -> Surroundings {
    let identity = Identity { boot_id: [1; 16], device: 2, inode: 3, born: 4 };
    Surroundings { identity, persistent: false, pid: 4, start_time: 5, now: 6, adopt: false }
}

fn memory() -> Arc<PlainMemory> {
    Arc::new(PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK))
}

fn format(memory: &Arc<PlainMemory>) -> Image<Coherent> {
    Image::format(Arc::clone(memory) as _, Coherent, Path::new("memory"), &FORMAT, here()).unwrap()
}

fn attach(memory: &Arc<PlainMemory>, surroundings: Surroundings) -> Result<Attached<Coherent>, ImageError> {
    Image::attach(Arc::clone(memory) as _, Coherent, Path::new("memory"), surroundings, true)
}

/// `Ok` with how it was attached, or the name of the error.
fn verdict(memory: &Arc<PlainMemory>, surroundings: Surroundings) -> Result<Attachment, &'static str> {
    attach(memory, surroundings).map(|attached| attached.attachment).map_err(|error| match error {
        ImageError::Copied { .. } => "copied",
        ImageError::NotIntact { .. } => "not intact",
        other => panic!("{other}"),
    })
}

#[test]
fn who_is_trusted() {
    let same = here();
    let rebooted = Surroundings { identity: Identity { boot_id: [9; 16], ..same.identity }, ..same };
    // Devices are numbered anew at every boot.
    let renumbered = Surroundings { identity: Identity { device: 7, ..rebooted.identity }, ..same };
    let other_device = Surroundings { identity: Identity { device: 7, ..same.identity }, ..same };
    let other_inode = Surroundings { identity: Identity { inode: 7, ..same.identity }, ..same };
    let persistent = |surroundings: Surroundings| Surroundings { persistent: true, ..surroundings };

    let clean = memory();
    let image = format(&clean);
    image.begin(1).unwrap();
    image.close(0).unwrap();
    for trusted in [same, rebooted, renumbered] {
        assert_eq!(verdict(&clean, trusted), Ok(Attachment::Clean));
    }
    for copy in [other_device, other_inode] {
        assert_eq!(verdict(&clean, copy), Err("copied"));
        assert_eq!(verdict(&clean, Surroundings { adopt: true, ..copy }), Ok(Attachment::Clean));
    }

    let in_use = memory();
    format(&in_use).begin(1).unwrap();
    assert_eq!(verdict(&in_use, same), Ok(Attachment::Reattached));
    assert_eq!(verdict(&in_use, rebooted), Err("not intact"));
    assert_eq!(verdict(&in_use, persistent(rebooted)), Ok(Attachment::Reattached));
    for copy in [other_device, other_inode] {
        assert_eq!(verdict(&in_use, copy), Err("not intact"));
        let adopted = Surroundings { adopt: true, ..persistent(copy) };
        assert_eq!(verdict(&in_use, adopted), Err("not intact"), "a copy in flight cannot be adopted");
    }
}

/// A power cut may take the growth of an ordinary file, and leave the state that records it.
#[test]
fn an_image_that_is_lost_need_not_have_its_length() {
    let rebooted = Surroundings { identity: Identity { boot_id: [9; 16], ..here().identity }, ..here() };
    let (whole, cut) = (memory(), memory());
    let image = format(&whole);
    image.begin(1).unwrap();
    image.grow(6).unwrap();
    // SAFETY: both are that long, and no other code uses them.
    unsafe { cut.base().copy_from(whole.base(), 4 * MIN_CHUNK as usize) };
    assert_eq!(verdict(&cut, rebooted), Err("not intact"));
    for trusted in [here(), Surroundings { persistent: true, ..rebooted }] {
        let error = attach(&cut, trusted).map(|_| ()).unwrap_err();
        assert!(matches!(error, ImageError::Truncated { .. }), "{error}");
    }
    image.close(0).unwrap();
    // SAFETY: as above.
    unsafe { cut.base().copy_from(whole.base(), 4 * MIN_CHUNK as usize) };
    assert!(matches!(attach(&cut, rebooted), Err(ImageError::Truncated { .. })), "it was closed");
}

#[test]
fn what_is_remembered() {
    let memory = memory();
    let image = format(&memory);
    assert_eq!((image.epoch(), image.chunks(), image.chunk_size()), (0, 4, MIN_CHUNK));
    image.begin(41).unwrap();
    image.set_root(0, Some(MIN_CHUNK)).unwrap();
    image.set_root(ROOT_COUNT - 1, Some(2 * MIN_CHUNK + 8)).unwrap();
    image.set_root(7, Some(8)).unwrap();
    image.set_root(7, None).unwrap();
    image.grow(6).unwrap();
    image.close(Lsn::new(41, 5).bits()).unwrap();

    let attached = attach(&memory, here()).unwrap();
    assert!(!attached.slot_repaired);
    let image = attached.image;
    assert_eq!((image.epoch(), image.chunks(), image.last_lsn()), (41, 6, Lsn::new(41, 5).bits()));
    assert_eq!((image.header().store_id, image.header().hash_seed), ([4; 16], 11));
    assert_eq!(image.root(0).unwrap(), Some(MIN_CHUNK));
    assert_eq!(image.root(ROOT_COUNT - 1).unwrap(), Some(2 * MIN_CHUNK + 8));
    assert_eq!(image.root(7).unwrap(), None);
}

#[test]
fn pending_commits_are_found_by_the_next_opener_and_only_those() {
    let memory = memory();
    let image = format(&memory);
    image.begin(3).unwrap();
    let mut finished = image.claim_pending().unwrap();
    finished.name(Lsn::new(3, 8));
    finished.finish();
    let mut left = Vec::new();
    for counter in [10, 9] {
        let mut pending = image.claim_pending().unwrap();
        pending.name(Lsn::new(3, counter));
        left.push(pending);
    }
    drop(image.claim_pending().unwrap());
    drop(left);
    let image = attach(&memory, here()).unwrap().image;
    assert_eq!(image.pending().unwrap(), [Lsn::new(3, 9), Lsn::new(3, 10)]);
    image.begin(4).unwrap();
    assert_eq!(image.pending().unwrap(), []);
}

#[test]
fn abandoned_commits_end_in_an_error_not_in_waiting() {
    let memory = memory();
    let image = format(&memory);
    image.begin(1).unwrap();
    for counter in 1..=PENDING_COUNT as u64 {
        image.claim_pending().unwrap().name(Lsn::new(1, counter));
    }
    let error = image.claim_pending().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("open it again"), "{error}");
}

#[test]
fn claims_wait_for_each_other() {
    let memory = memory();
    let image = format(&memory);
    image.begin(1).unwrap();
    let counter = std::sync::atomic::AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..PENDING_COUNT + 40 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut pending = image.claim_pending().unwrap();
                    pending.name(Lsn::new(1, counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
                    std::thread::yield_now();
                    pending.finish();
                }
            });
        }
    });
    assert_eq!(image.pending().unwrap(), []);
}

#[test]
fn either_slot_may_be_damaged_and_is_restored() {
    for slot in [4096, 8192] {
        for at in [0, 8, 24, 252, 255, 256, 4095] {
            let memory = memory();
            format(&memory).begin(5).unwrap();
            flip(&memory, slot + at);
            let attached = attach(&memory, here()).unwrap();
            assert!(attached.slot_repaired, "byte {at} of slot {slot}");
            assert_eq!(attached.image.epoch(), 5);
            assert!(!attach(&memory, here()).unwrap().slot_repaired);
        }
    }
    let memory = memory();
    format(&memory);
    flip(&memory, 4096);
    flip(&memory, 8192);
    assert_eq!(verdict(&memory, here()), Err("not intact"));
    let persistent = Surroundings { persistent: true, ..here() };
    assert!(matches!(attach(&memory, persistent), Err(ImageError::Damaged { .. })));
}

fn flip(memory: &PlainMemory, at: usize) {
    // SAFETY: within the memory, and no other code uses it.
    unsafe { *memory.base().add(at) ^= 1 };
}

#[test]
fn damage_elsewhere_in_the_header_is_refused() {
    // A root, an unset root, a named pending line, the rest of that line, the descriptor of chunk 0.
    for at in [12288, 12288 + 8 * 100, 16384, 16384 + 8, 20480] {
        let memory = memory();
        let image = format(&memory);
        image.begin(1).unwrap();
        image.set_root(0, Some(MIN_CHUNK)).unwrap();
        image.claim_pending().unwrap().name(Lsn::new(1, 1));
        flip(&memory, at);
        let opened = attach(&memory, here()).and_then(|attached| {
            let image = Arc::new(attached.image);
            Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(())).map(|_| ())
        });
        let error = opened.unwrap_err();
        assert!(matches!(error, ImageError::Damaged { .. }), "byte {at}: {error}");
        assert!(error.to_string().contains("log directory"), "{error}");
    }
}

#[test]
fn wrong_callers_get_errors() {
    let memory = memory();
    let image = format(&memory);
    for wrong in [0, image.len(), u64::MAX] {
        assert!(matches!(image.set_root(1, Some(wrong)), Err(ImageError::Invalid(_))));
    }
    assert!(matches!(image.grow(9), Err(ImageError::OutOfSpace { .. })));
    assert!(matches!(image.grow(1 << 60), Err(ImageError::OutOfSpace { .. })));
    image.grow(3).unwrap();
    assert_eq!(image.chunks(), 4, "images do not shrink");
    let small = Arc::new(PlainMemory::new(MIN_CHUNK, MIN_CHUNK));
    let formatted = Image::format(small as _, Coherent, Path::new("memory"), &FORMAT, here());
    assert!(matches!(formatted.map(|_| ()), Err(ImageError::Invalid(_))));
    let tiny = Arc::new(PlainMemory::new(4096, 4096));
    let attached = Image::attach(tiny as _, Coherent, Path::new("memory"), here(), true);
    assert!(matches!(attached.map(|_| ()), Err(ImageError::Foreign { .. })));
}

#[test]
fn a_file_that_grew_without_being_told_is_cut_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let options = CreateOptions { len: 4 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let image = Image::create(&path, Coherent, &options).unwrap();
    image.begin(1).unwrap();
    image.file().unwrap().grow(7 * MIN_CHUNK).unwrap();
    drop(image);
    let open = || Image::open(&path, Coherent, Access::ReadWrite, &OpenOptions::default());
    let attached = open().unwrap();
    assert_eq!(attached.attachment, Attachment::Reattached);
    assert_eq!((attached.image.chunks(), path.metadata().unwrap().len()), (4, 4 * MIN_CHUNK));
    // And a shorter one is refused.
    drop(attached);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3 * MIN_CHUNK).unwrap();
    let error = open().map(|_| ()).unwrap_err();
    assert!(matches!(error, ImageError::Truncated { .. }), "{error}");
}

#[test]
fn looking_changes_nothing_and_works_beside_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let options = CreateOptions { len: 4 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let writer = Image::create(&path, Coherent, &options).unwrap();
    writer.begin(1).unwrap();
    writer.set_root(3, Some(MIN_CHUNK)).unwrap();
    let look = || Image::open(&path, Coherent, Access::ReadOnly, &OpenOptions::default()).unwrap().image;
    let reader = look();
    assert_eq!(reader.root(3).unwrap(), Some(MIN_CHUNK));
    writer.set_root(3, Some(2 * MIN_CHUNK)).unwrap();
    assert_eq!(reader.root(3).unwrap(), Some(2 * MIN_CHUNK), "it is the same memory");
    assert!(matches!(reader.begin(2), Err(ImageError::ReadOnly)));
    assert!(matches!(reader.grow(5), Err(ImageError::ReadOnly)));
    assert!(matches!(reader.set_root(3, None), Err(ImageError::ReadOnly)));
    let heap = Heap::recover::<ImageError>(&Arc::new(reader), HeapOptions::default(), |_| Ok(()));
    assert!(matches!(heap.map(|_| ()), Err(ImageError::ReadOnly)));
    let reader = look();
    assert_eq!(Heap::survey::<ImageError>(&reader, |_| Ok(())).unwrap().free_chunks, 3);
    reader.close(0).unwrap();
    writer.close(0).unwrap();
}

/// An image on persistent memory needs a domain that writes back.
#[test]
fn domains_say_whether_they_write_back() {
    assert_eq!([Coherent::WRITES_BACK, WritesBack::WRITES_BACK], [false, true]);
}

struct WritesBack;

impl Persist for WritesBack {
    fn flush(&self, _site: &'static str, _start: *const u8, _len: usize) {}
    fn fence(&self, _site: &'static str) {}
}
