//! Many threads at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use warpkeep_core::{Change, ChangeKind, Durability, Lsn};
use warpkeep_log::{ChangeBatch, Disk, DiskFile, Log, LogError, LogOptions};

use crate::history::{Items, STORE, apply, create, options, recover, replay, scan};
use crate::mem_disk::{MemDisk, Plan};

const THREADS: u64 = 16;

/// A disk whose syncs take a while, as real ones do.
struct Slow(MemDisk);

struct SlowFile(Box<dyn DiskFile>);

impl Disk for Slow {
    fn open(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.open(name)?)))
    }
    fn create(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.create(name)?)))
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_dir(&self, site: &'static str) -> std::io::Result<()> {
        self.0.sync_dir(site)
    }
}

impl DiskFile for SlowFile {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.0.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> std::io::Result<()> {
        self.0.allocate(len)
    }
    fn sync(&self, site: &'static str) -> std::io::Result<()> {
        thread::sleep(std::time::Duration::from_millis(2));
        self.0.sync(site)
    }
}

fn put(batch: &mut ChangeBatch, thread: u64, round: u64) {
    batch.clear();
    let (key, value) = (thread.to_le_bytes(), round.to_le_bytes());
    batch
        .push(&Change { table: 1, kind: ChangeKind::Put, version: round, key: &key, value: &value })
        .unwrap();
}

#[test]
fn commits_of_many_threads_share_their_syncs() {
    share_syncs(false);
}

#[test]
fn commits_of_many_threads_share_their_syncs_beside_the_logs_own() {
    share_syncs(true);
}

fn share_syncs(background: bool) {
    const ROUNDS: u64 = 40;
    let disk = MemDisk::default();
    let roomy = LogOptions { segment_bytes: 256 << 10, background, ..options() };
    let log = Log::create(Arc::new(Slow(disk.clone())), STORE, 1, roomy).unwrap();
    thread::scope(|scope| {
        for id in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                let mut batch = ChangeBatch::new();
                for round in 1..=ROUNDS {
                    put(&mut batch, id, round);
                    let lsn = log.append(&batch, Durability::Power, |_| ()).unwrap();
                    log.wait_durable(lsn).unwrap();
                    assert!(log.durable_lsn() >= lsn);
                }
            });
        }
    });
    let (commits, syncs) = (THREADS * ROUNDS, disk.syncs("log.frame"));
    assert!(syncs <= commits / 4, "{commits} commits took {syncs} syncs");
    drop(log);
    let recovery = recover(&disk).unwrap();
    assert_eq!((recovery.report().records, recovery.report().frames), (commits, syncs));
    let items = replay(&recovery).unwrap();
    assert_eq!(items.len() as u64, THREADS);
    assert!(items.values().all(|(version, _)| *version == ROUNDS));
}

#[test]
fn a_lone_writer_syncs_once_a_commit() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut batch = ChangeBatch::new();
    for round in 1..=10 {
        put(&mut batch, 1, round);
        let lsn = log.append(&batch, Durability::Power, |_| ()).unwrap();
        log.wait_durable(lsn).unwrap();
        assert_eq!(disk.syncs("log.frame"), round);
    }
}

#[test]
fn when_the_disk_fails_nobody_is_left_waiting() {
    for at in [1, 2, 3, 5, 8, 13, 21, 34] {
        let disk = MemDisk::default();
        let log = create(&disk);
        disk.plan(Plan::DieAt(disk.calls() + at));
        let acknowledged = AtomicU64::new(0);
        thread::scope(|scope| {
            for id in 0..THREADS {
                let (log, acknowledged) = (&log, &acknowledged);
                scope.spawn(move || {
                    let mut batch = ChangeBatch::new();
                    for round in 1.. {
                        put(&mut batch, id, round);
                        let committed = log.append(&batch, Durability::Power, |_| ()).and_then(|lsn| {
                            log.wait_durable(lsn)?;
                            Ok(lsn)
                        });
                        match committed {
                            Ok(lsn) => acknowledged.fetch_max(lsn.bits(), Ordering::Relaxed),
                            // The segment in reserve may be the first to fail: then nothing is accepted any more.
                            Err(LogError::Poisoned { .. } | LogError::NoSegment { .. }) => break,
                            Err(other) => panic!("{other}"),
                        };
                    }
                });
            }
        });
        drop(log);
        let found = recover(&disk.fork()).unwrap().last_lsn();
        assert!(found >= Lsn::from_bits(acknowledged.into_inner()));
    }
}

#[test]
fn back_pressure_bounds_the_backlog() {
    let disk = MemDisk::default();
    let tight = LogOptions { backlog_bytes: 10_000, segment_bytes: 64 << 10, ..options() };
    let log = Log::create(Arc::new(disk.clone()), STORE, 1, tight).unwrap();
    thread::scope(|scope| {
        for id in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let mut batch = ChangeBatch::new();
                for round in 1..=200 {
                    log.back_pressure().unwrap();
                    put(&mut batch, id, round);
                    log.append(&batch, Durability::Process, |_| ()).unwrap();
                }
            });
        }
    });
    let behind = log.last_lsn().counter() - log.durable_lsn().counter();
    assert!(behind * 64 <= 10_000 + 4 * 64, "{behind} records behind");
    assert!(log.durable_lsn() > Lsn::ZERO, "nobody waited, and yet something was written");
}

/// Writers of both kinds change a shared map while checkpoints are taken of it; every log that a crash could leave behind
/// then replays to what the map was.
#[test]
fn checkpoints_run_beside_writers() {
    let disk = MemDisk::default();
    let with_thread = LogOptions { background: true, ..options() };
    let log = Log::create(Arc::new(disk.clone()), STORE, 1, with_thread).unwrap();
    // One lock a key, as the store has: number and effect of a key's writers come in the same order.
    let keys: Vec<Mutex<Items>> = (0..8).map(|_| Mutex::new(Items::new())).collect();
    let oracle = Mutex::new(BTreeMap::<Lsn, ChangeBatch>::new());
    let running = AtomicBool::new(true);
    thread::scope(|scope| {
        for id in 0..4u64 {
            let (log, keys, oracle, running) = (&log, &keys, &oracle, &running);
            scope.spawn(move || {
                let mut round = 0;
                while running.load(Ordering::Relaxed) {
                    round += 1;
                    thread::sleep(std::time::Duration::from_micros(50));
                    log.back_pressure().unwrap();
                    let _guard = log.enter();
                    let which = (id + round) % 8;
                    let mut items = keys[which as usize].lock().unwrap();
                    let version = items.values().next().map_or(0, |item| item.0) + 1;
                    let value = vec![id as u8; (round % 300) as usize];
                    let key = which.to_le_bytes();
                    let change =
                        Change { table: 1, kind: ChangeKind::Put, version, key: &key, value: &value };
                    let mut batch = ChangeBatch::new();
                    batch.push(&change).unwrap();
                    if round % 3 == 0 {
                        let lsn = log.append(&batch, Durability::Power, |_| ()).unwrap();
                        log.wait_durable(lsn).unwrap();
                        apply(&mut items, &change);
                        oracle.lock().unwrap().insert(lsn, batch);
                    } else {
                        apply(&mut items, &change);
                        let lsn = log.append(&batch, Durability::Process, |_| ()).unwrap();
                        oracle.lock().unwrap().insert(lsn, batch);
                    }
                }
            });
        }
        let mut frozen = Vec::new();
        for _ in 0..10 {
            let scan_all = |writer: &mut _| {
                for key in &keys {
                    scan(&key.lock().unwrap(), writer)?;
                    thread::yield_now();
                }
                Ok::<(), LogError>(())
            };
            log.checkpoint(scan_all).unwrap();
            frozen.push(disk.fork());
        }
        running.store(false, Ordering::Relaxed);
        for disk in &frozen {
            // A copy of a live directory is a crash of the process at that moment.
            let recovery = recover(disk).unwrap();
            let found = replay(&recovery).unwrap();
            let mut expected = Items::new();
            // A batch enters the oracle just after its number is drawn; wait for the slowest writer.
            let newest = recovery.last_lsn();
            while oracle.lock().unwrap().range(..=newest).count() as u64 != newest.counter() {
                thread::yield_now();
            }
            for batch in oracle.lock().unwrap().range(..=newest).map(|(_, batch)| batch) {
                batch.iter().for_each(|change| apply(&mut expected, &change));
            }
            assert_eq!(found, expected);
        }
    });
    log.close().unwrap();
    assert!(recover(&disk).unwrap().checkpoint().unwrap().id == 10);
}
