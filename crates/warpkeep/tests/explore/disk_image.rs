//! An image in an ordinary file: the kernel writes its pages back when it likes, so after a power cut only a
//! clean mark makes it trustworthy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use warpkeep_crashlab::{
    Crash, Exploration, Explorer, Gate, LabMemory, MemoryModel, Recorder, Reopen, Trace, mutation_gate_of,
};
use warpkeep_image::{Attachment, Image, ImageError, MIN_CHUNK, Persist, Surroundings};

use crate::Dropped;
use crate::lab_place::{format, surroundings};

const FORMATTED: u64 = 1;
/// Plus the number of the opening; marked before it begins.
const OPENING: u64 = 100;
const CLOSED: u64 = 200;

/// Stores to a file in the page cache: no flush reaches the disk, only a sync does.
struct PageCache(Recorder);

impl Persist for PageCache {
    fn store(&self, word: &AtomicU64, value: u64) {
        self.0.store(word, value);
    }

    fn cas(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        self.0.cas(word, current, new)
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: passed on to the caller.
        unsafe { self.0.write(to, bytes) };
    }

    fn flush(&self, _site: &'static str, _start: *const u8, _len: usize) {}

    fn fence(&self, _site: &'static str) {}
}

fn explorer() -> Explorer {
    Explorer::new([Crash::Process, Crash::PowerPersistent(MemoryModel::Words)])
        .per_boundary(256)
        .per_recovery(40)
}

/// Opening number `turn`: changes two roots and closes.
fn work(image: Image<PageCache>, ack: &dyn Fn(u64), turn: u64) -> Result<(), ImageError> {
    ack(OPENING + turn);
    image.begin(turn)?;
    for root in [1, 2] {
        image.set_root(root, Some(MIN_CHUNK + 8 * turn))?;
    }
    image.close(turn)?;
    ack(CLOSED + turn);
    Ok(())
}

fn scenario(trace: &Trace) {
    let memory = LabMemory::new(trace, 2 * MIN_CHUNK, 2 * MIN_CHUNK);
    let domain = PageCache(memory.recorder());
    let image =
        Image::format(Arc::new(memory.clone()), domain, Path::new("lab"), &format(), surroundings(false));
    // A new file is synced before it gets its name.
    warpkeep_image::Backing::sync(&memory, "lab.publish").unwrap();
    trace.ack(FORMATTED);
    work(image.unwrap(), &|tag| trace.ack(tag), 1).unwrap();
    let attached = Image::attach(
        Arc::new(memory.clone()),
        PageCache(memory.recorder()),
        Path::new("lab"),
        surroundings(false),
        true,
    );
    work(attached.unwrap().image, &|tag| trace.ack(tag), 2).unwrap();
}

fn check((): &(), reopen: &Reopen<'_>) -> Result<(), String> {
    let Some(memory) = reopen.memory() else { return Ok(()) };
    if !reopen.acked().contains(&FORMATTED) {
        return Ok(());
    }
    let mut now: Surroundings = surroundings(false);
    if reopen.power_lost() {
        now.identity.boot_id = [6; 16];
    }
    let last = |base: u64| {
        let tags = reopen.acked().iter().filter(|&&tag| (base..base + 100).contains(&tag));
        tags.max().map_or(0, |tag| tag - base)
    };
    let (opened, closed) = (last(OPENING), last(CLOSED));
    let domain = PageCache(memory.recorder());
    let attached = match Image::attach(Arc::new(memory), domain, Path::new("lab"), now, true) {
        Ok(attached) => attached,
        Err(ImageError::NotIntact { .. }) if reopen.power_lost() && opened > closed => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let roots: Vec<_> = [1, 2].into_iter().map(|root| attached.image.root(root)).collect();
    let roots: Vec<u64> = roots
        .into_iter()
        .map(|root| root.map(|root| root.map_or(0, |offset| (offset - MIN_CHUNK) / 8)))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    if attached.attachment == Attachment::Clean {
        let turn = attached.image.last_lsn();
        if roots.iter().any(|&root| root != turn) {
            return Err(format!("closed at {turn}, but the roots are of {roots:?}"));
        }
    }
    if !reopen.power_lost() && roots.iter().any(|&root| root < closed) {
        return Err(format!("{closed} was closed, but the roots are of {roots:?}"));
    }
    let turn = opened.max(attached.image.epoch()) + 1;
    work(attached.image, &|tag| reopen.ack(tag), turn).map_err(|error| error.to_string())
}

pub(crate) fn explore() -> Exploration {
    let trace = Trace::new();
    scenario(&trace);
    explorer().explore(&trace, |reopen| check(&(), reopen))
}

pub(crate) fn gate(drop: &Dropped) -> Gate {
    mutation_gate_of(&drop.sampled(explorer()), |site| drop.has(site), scenario, check)
}
