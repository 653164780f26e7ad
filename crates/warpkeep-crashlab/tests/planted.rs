//! The explorer catches the bugs it claims to: small structures with one bug each, and correct versions of them.

use warpkeep_crashlab::{
    Crash, Exploration, Explorer, LabDisk, LabMemory, MemoryModel, Recorder, Reopen, Trace,
};
use warpkeep_image::{Backing, Persist};
use warpkeep_log::{Disk, DiskFile};

const LINES: Crash = Crash::PowerPersistent(MemoryModel::X86Lines);
const WORDS: Crash = Crash::PowerPersistent(MemoryModel::Words);

/// A memory of one page and its recorder.
fn page(trace: &Trace) -> (LabMemory, Recorder) {
    let memory = LabMemory::new(trace, 4096, 4096);
    let recorder = memory.recorder();
    (memory, recorder)
}

fn store(memory: &LabMemory, recorder: &Recorder, offset: u64, value: u64) {
    recorder.store(memory.word(offset), value);
}

fn flush(memory: &LabMemory, recorder: &Recorder, offset: u64, len: usize) {
    recorder.flush("test", memory.word(offset).as_ptr().cast(), len);
}

fn write(memory: &LabMemory, recorder: &Recorder, offset: u64, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // SAFETY: the tests write inside their page, from one thread.
    unsafe { recorder.write(memory.base().add(offset as usize), &bytes) };
}

fn read(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    let count = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(count);
    bytes
}

// (a) A slot must be durable before the bit that makes it count.

const COMMIT_WORD: u64 = 0x40;
const SLOTS: u64 = 0x100;

/// Four puts into a bucket: a slot of two words each, and a commit word with a bit a slot.
fn bucket(flush_slot: bool, crash: Crash) -> Exploration {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    for slot in 0..4 {
        let place = SLOTS + slot * 64;
        write(&memory, &recorder, place, &[slot + 1, (slot + 1) * 1000]);
        if flush_slot {
            flush(&memory, &recorder, place, 16);
            recorder.fence("slot");
        }
        store(&memory, &recorder, COMMIT_WORD, memory.load(COMMIT_WORD) | 1 << slot);
        flush(&memory, &recorder, COMMIT_WORD, 8);
        recorder.fence("commit");
        trace.ack(slot);
    }
    Explorer::new([crash]).explore(&trace, |reopen| {
        let Some(memory) = reopen.memory() else { return Ok(()) };
        let bits = memory.load(COMMIT_WORD);
        if let Some(lost) = reopen.acked().iter().find(|&&slot| bits & 1 << slot == 0) {
            return Err(format!("slot {lost} was acknowledged and is lost"));
        }
        for slot in (0..4).filter(|slot| bits & 1 << slot != 0) {
            let place = SLOTS + slot * 64;
            if (memory.load(place), memory.load(place + 8)) != (slot + 1, (slot + 1) * 1000) {
                return Err(format!("slot {slot} is committed and not there"));
            }
        }
        Ok(())
    })
}

#[test]
fn turbohash_slot_not_flushed_before_commit_word() {
    for crash in [LINES, WORDS] {
        bucket(false, crash).assert_caught();
        bucket(true, crash).assert_clean();
    }
    // A process that dies takes no cache with it: here the bug does not show.
    bucket(false, Crash::Process).assert_clean();
}

// (b) A value that straddles two lines must be flushed in both.

fn descriptor(flushed_bytes: usize, crash: Crash) -> Exploration {
    const DESCRIPTOR: u64 = 0x38;
    const PUBLISHED: u64 = 0x200;
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    for version in 1..=3u64 {
        store(&memory, &recorder, PUBLISHED, 0);
        flush(&memory, &recorder, PUBLISHED, 8);
        recorder.fence("withdrawn");
        write(&memory, &recorder, DESCRIPTOR, &[version, !version]);
        flush(&memory, &recorder, DESCRIPTOR, flushed_bytes);
        recorder.fence("descriptor");
        store(&memory, &recorder, PUBLISHED, version);
        flush(&memory, &recorder, PUBLISHED, 8);
        recorder.fence("published");
    }
    Explorer::new([crash]).explore(&trace, |reopen| {
        let Some(memory) = reopen.memory() else { return Ok(()) };
        let published = memory.load(PUBLISHED);
        let found = (memory.load(DESCRIPTOR), memory.load(DESCRIPTOR + 8));
        if published == 0 || found == (published, !published) {
            return Ok(());
        }
        Err(format!("version {published} is published, the descriptor says {found:x?}"))
    })
}

#[test]
fn turbohash_descriptor_across_two_lines() {
    for crash in [LINES, WORDS] {
        descriptor(8, crash).assert_caught();
        descriptor(16, crash).assert_clean();
    }
}

// Within one line x86 keeps the order of stores; a GPU over the link does not.

#[test]
fn order_within_a_line_is_enough_for_lines_and_not_for_words() {
    let explore = |crash| {
        let trace = Trace::new();
        let (memory, recorder) = page(&trace);
        store(&memory, &recorder, 0x80, 5);
        store(&memory, &recorder, 0x88, 1);
        flush(&memory, &recorder, 0x80, 16);
        recorder.fence("both");
        Explorer::new([crash]).explore(&trace, |reopen| match reopen.memory() {
            Some(memory) if memory.load(0x88) == 1 && memory.load(0x80) != 5 => {
                Err("flag before value".into())
            }
            _ => Ok(()),
        })
    };
    explore(LINES).assert_clean();
    explore(WORDS).assert_caught();
}

// (c) An acknowledgement must wait for the sync.

fn log(ack_first: bool) -> Exploration {
    let trace = Trace::new();
    let disk = LabDisk::new(&trace);
    let file = disk.create("log").unwrap();
    file.allocate(4096).unwrap();
    file.sync("made").unwrap();
    disk.sync_dir("made").unwrap();
    for record in 1..=4u8 {
        file.write_at(&[record; 700], u64::from(record - 1) * 700).unwrap();
        if ack_first {
            trace.ack(u64::from(record));
        }
        file.sync("record").unwrap();
        if !ack_first {
            trace.ack(u64::from(record));
        }
    }
    Explorer::new([Crash::PowerVolatile]).explore(&trace, |reopen| {
        for &record in reopen.acked() {
            let bytes = read(&*reopen.disk().open("log").map_err(|error| error.to_string())?);
            let place = (record as usize - 1) * 700;
            if bytes.get(place..place + 700) != Some(&[record as u8; 700]) {
                return Err(format!("record {record} was acknowledged and is lost"));
            }
        }
        Ok(())
    })
}

#[test]
fn log_that_acknowledges_before_its_sync() {
    log(true).assert_caught();
    log(false).assert_clean();
}

// (d) and (e): a file replaced by renaming.

fn replace(sync_file: bool, sync_dir: bool) -> Exploration {
    let trace = Trace::new();
    let disk = LabDisk::new(&trace);
    trace.pause();
    disk.create("manifest").unwrap().write_at(&[1; 600], 0).unwrap();
    trace.resume();
    for version in 2..=3u8 {
        let file = disk.create("manifest.tmp").unwrap();
        file.write_at(&[version; 600], 0).unwrap();
        if sync_file {
            file.sync("manifest").unwrap();
        }
        disk.rename("manifest.tmp", "manifest").unwrap();
        if sync_dir {
            disk.sync_dir("manifest").unwrap();
        }
        trace.ack(u64::from(version));
    }
    Explorer::new([Crash::Process, Crash::PowerVolatile]).explore(&trace, |reopen| {
        let bytes = match reopen.disk().open("manifest") {
            Ok(file) => read(&*file),
            // The exploration begins before the setting of the scene.
            Err(_) if reopen.disk().list().unwrap().is_empty() && reopen.acked().is_empty() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let version = bytes.first().copied().unwrap_or(0);
        if version == 0 || bytes != [version; 600] {
            return Err(format!("the manifest is torn: {} bytes, version {version}", bytes.len()));
        }
        match reopen.acked().last() {
            Some(&acked) if u64::from(version) < acked => Err(format!("version {acked} is lost")),
            _ => Ok(()),
        }
    })
}

#[test]
fn rename_of_a_file_that_was_not_synced() {
    let found = replace(false, true);
    found.assert_caught();
    assert!(found.violations[0].message.contains("torn"), "{found}");
}

#[test]
fn rename_acknowledged_before_the_directory_was_synced() {
    let found = replace(true, false);
    found.assert_caught();
    assert!(found.violations[0].message.contains("is lost"), "{found}");
}

#[test]
fn rename_done_right() {
    replace(true, true).assert_clean();
}

// (f) A fence completes only its own thread's flushes.

fn fenced_by(thread: u32) -> Exploration {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    trace.as_thread(1, || {
        store(&memory, &recorder, 0, 7);
        flush(&memory, &recorder, 0, 8);
    });
    trace.as_thread(thread, || recorder.fence("seven"));
    trace.ack(7);
    Explorer::new([LINES]).explore(&trace, |reopen| match reopen.memory() {
        Some(memory) if !reopen.acked().is_empty() && memory.load(0) != 7 => Err("seven is lost".into()),
        _ => Ok(()),
    })
}

#[test]
fn fence_by_another_thread() {
    fenced_by(2).assert_caught();
    fenced_by(1).assert_clean();
}

#[test]
fn threads_of_the_operating_system_are_told_apart() {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    store(&memory, &recorder, 0, 7);
    flush(&memory, &recorder, 0, 8);
    std::thread::scope(|scope| scope.spawn(|| recorder.fence("not mine")).join().unwrap());
    trace.ack(7);
    let found = Explorer::new([LINES]).explore(&trace, |reopen| match reopen.memory() {
        Some(memory) if !reopen.acked().is_empty() && memory.load(0) != 7 => Err("seven is lost".into()),
        _ => Ok(()),
    });
    found.assert_caught();
}

// (g) Recovery must bear being interrupted and done again.

const BALANCE: u64 = 0x40;
const INTENT: u64 = 0x80;

/// Redoes a transfer: by adding, which is wrong the second time, or by setting the balances from the intent.
fn redo(reopen: &Reopen<'_>, adding: bool) -> Result<(), String> {
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let recorder = memory.recorder();
    let (active, amount, target) = (memory.load(INTENT), memory.load(INTENT + 8), memory.load(INTENT + 16));
    if active == 1 {
        let new = if adding { memory.load(BALANCE) + amount } else { target };
        store(&memory, &recorder, BALANCE, new);
        flush(&memory, &recorder, BALANCE, 8);
        recorder.fence("balance");
        store(&memory, &recorder, INTENT, 0);
        flush(&memory, &recorder, INTENT, 8);
        recorder.fence("intent");
    }
    match memory.load(BALANCE) {
        0 if reopen.acked().is_empty() => Ok(()),
        100 => Ok(()),
        balance => Err(format!("the balance is {balance}")),
    }
}

fn transfer(adding: bool, depth: usize) -> Exploration {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    write(&memory, &recorder, INTENT + 8, &[100, 100]);
    flush(&memory, &recorder, INTENT, 24);
    recorder.fence("intent");
    store(&memory, &recorder, INTENT, 1);
    flush(&memory, &recorder, INTENT, 8);
    recorder.fence("intent");
    trace.ack(1);
    Explorer::new([Crash::Process, LINES]).depth(depth).explore(&trace, |reopen| redo(reopen, adding))
}

#[test]
fn recovery_that_cannot_be_done_twice() {
    transfer(true, 1).assert_clean();
    transfer(true, 2).assert_caught();
    transfer(false, 2).assert_clean();
    transfer(false, 3).assert_clean();
}

// Stores that a dead process left in the caches are visible, and at risk.

fn promise(persist_first: bool) -> Exploration {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    store(&memory, &recorder, 0, 7);
    Explorer::new([Crash::Process, LINES]).explore(&trace, |reopen| {
        let Some(memory) = reopen.memory() else { return Ok(()) };
        let recorder = memory.recorder();
        if !reopen.acked().is_empty() && memory.load(0) != 7 {
            return Err("seven was promised by recovery and is lost".into());
        }
        if memory.load(0) == 7 {
            if persist_first {
                flush(&memory, &recorder, 0, 8);
                recorder.fence("seven");
            }
            reopen.ack(7);
        }
        Ok(())
    })
}

#[test]
fn recovery_that_trusts_what_is_only_in_the_caches() {
    promise(false).assert_caught();
    promise(true).assert_clean();
}

// A memory that grew is longer only once it was synced.

fn growth(sync: bool) -> Exploration {
    let trace = Trace::new();
    let memory = LabMemory::new(&trace, 64, 4096);
    let recorder = memory.recorder();
    memory.grow(128).unwrap();
    if sync {
        memory.sync("grown").unwrap();
    }
    store(&memory, &recorder, 64, 7);
    flush(&memory, &recorder, 64, 8);
    recorder.fence("seven");
    trace.ack(7);
    Explorer::new([LINES]).explore(&trace, |reopen| match reopen.memory() {
        Some(memory) if !reopen.acked().is_empty() && memory.len() < 128 => Err("it has shrunk".into()),
        Some(memory) if !reopen.acked().is_empty() && memory.load(64) != 7 => Err("seven is lost".into()),
        _ => Ok(()),
    })
}

#[test]
fn growth_that_was_not_synced() {
    growth(false).assert_caught();
    growth(true).assert_clean();
}

// A process may die in the middle of a write.

#[test]
fn process_that_dies_in_the_middle_of_a_write() {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    write(&memory, &recorder, 0, &[1, 1]);
    let found = Explorer::new([Crash::Process]).explore(&trace, |reopen| match reopen.memory() {
        Some(memory) if memory.load(0) != memory.load(8) => Err("half".into()),
        _ => Ok(()),
    });
    found.assert_caught();
    assert_eq!(found.violations[0].boundary, 1, "after the memory was made, and into the write");
}

// Many threads at once: the record matches the executed stores.

#[test]
fn many_threads_record_what_they_did() {
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    let disk = LabDisk::new(&trace);
    let file = disk.create("file").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (memory, recorder, file) = (&memory, &recorder, &file);
            scope.spawn(move || {
                for round in 0..200u64 {
                    let byte = (round % 100) * 4 + u64::from(thread);
                    // SAFETY: inside the page, and these bytes are this thread's alone; the words are shared.
                    unsafe { recorder.write(memory.base().add(byte as usize), &[thread + 1]) };
                    let word = memory.word(2048);
                    while recorder.cas(word, memory.load(2048), memory.load(2048) + 1).is_err() {}
                    file.write_at(&[thread + 1], byte).unwrap();
                }
            });
        }
    });
    let live = read(&*file);
    trace.ack(1);
    let found = Explorer::new([Crash::Process]).depth(1).per_boundary(1).explore(&trace, |reopen| {
        if reopen.acked().is_empty() {
            return Ok(());
        }
        let memory = reopen.memory().ok_or("no memory")?;
        let files_agree = read(&*reopen.disk().open("file").map_err(|error| error.to_string())?) == live;
        let words = (0..50).map(|word| memory.load(word * 8)).all(|word| word == 0x0403_0201_0403_0201);
        if words && files_agree && memory.load(2048) == 800 { Ok(()) } else { Err("they differ".into()) }
    });
    found.assert_clean();
}

// The explorer's own alarms.

#[test]
fn panic_in_recovery_is_a_violation_that_says_where() {
    let trace = Trace::new();
    trace.ack(1);
    let found = Explorer::new([Crash::Process]).explore(&trace, |reopen| {
        assert!(reopen.acked().is_empty(), "index out of hand");
        Ok(())
    });
    assert_eq!(found.violations.len(), 1);
    let message = &found.violations[0].message;
    assert!(message.contains("planted.rs") && message.contains("index out of hand"), "{message}");
}

#[test]
fn store_that_bypasses_the_recorder_is_reported() {
    use std::sync::atomic::Ordering;
    let trace = Trace::new();
    let (memory, recorder) = page(&trace);
    store(&memory, &recorder, 0, 1);
    memory.word(8).store(1, Ordering::Relaxed);
    let found = Explorer::new([Crash::Process]).explore(&trace, |_| Ok(()));
    assert!(found.violations[0].message.contains("0x8 was changed without the recorder"), "{found}");

    let trace = Trace::new();
    let _memory = page(&trace);
    let found = Explorer::new([Crash::Process]).explore(&trace, |reopen| {
        if let Some(memory) = reopen.memory() {
            store(&memory, &memory.recorder(), 0, 1);
            memory.word(16).store(1, Ordering::Relaxed);
        }
        Ok(())
    });
    assert!(found.violations[0].message.contains("0x10 was changed without the recorder"), "{found}");
}
