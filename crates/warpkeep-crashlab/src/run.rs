//! A running exploration: workers that take planned crashes in order, and their findings.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use crate::buffer::Buffer;
use crate::disk::{DiskImage, LabDisk};
use crate::event::{Entry, Site};
use crate::explore::{Exploration, Explorer, Violation, bypass_message};
use crate::hash;
use crate::memory::LabMemory;
use crate::model::Crash;
use crate::pick;
use crate::plan::{Job, Plan, key, matters};
use crate::pool::Pool;
use crate::quiet;
use crate::reopen::Reopen;
use crate::space::Space;
use crate::trace::Trace;
use crate::world::{FilesState, MemoryState, Position, World, parts};

/// How many jobs a worker takes at a time.
const HANDFUL: usize = 16;

/// An image met while crashing recoveries: the part that a check can see, how many crashes may follow, and, where
/// those depend on it, which part of the image is durable.
type Meeting = (u64, usize, u64);

/// The verdict on an image met while crashing recoveries.
struct Known {
    verdict: Result<(), Failure>,
    /// The first job that met it.
    first_job: usize,
}

#[derive(Clone)]
struct Failure {
    /// The crashes that led to it from the image on; empty if the image itself was at fault.
    path: String,
    message: String,
}

/// The state that a check saw, and how to continue from there.
struct Life<'a> {
    job: usize,
    /// Crashes that may still follow.
    depth: usize,
    /// How the power went, if it did, this time or before.
    power: Option<Crash>,
    world: &'a World,
    space: &'a Space,
    choices: &'a [u32],
    key: u64,
}

pub(crate) struct Run<'a, F> {
    explorer: &'a Explorer,
    entries: &'a [Entry],
    plan: &'a Plan,
    check: &'a F,
    next: AtomicUsize,
    /// Jobs after this one do not count any more.
    last: AtomicUsize,
    found: Mutex<BTreeMap<usize, Violation>>,
    known: Mutex<HashMap<Meeting, Known>>,
    crashed: Mutex<Vec<usize>>,
    sites: Mutex<BTreeSet<Site>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, F: Fn(&Reopen<'_>) -> Result<(), String> + Sync> Run<'a, F> {
    pub(crate) fn new(explorer: &'a Explorer, entries: &'a [Entry], plan: &'a Plan, check: &'a F) -> Self {
        Run {
            explorer,
            entries,
            plan,
            check,
            next: AtomicUsize::new(0),
            last: AtomicUsize::new(usize::MAX),
            found: Mutex::default(),
            known: Mutex::default(),
            crashed: Mutex::default(),
            sites: Mutex::default(),
        }
    }

    /// Takes jobs until there are none. Jobs are taken in order, so a worker's world only ever moves forward.
    pub(crate) fn work(&self) {
        let (mut world, pool) = (World::default(), Pool::default());
        let mut choices = Vec::new();
        let mut space: Option<(Position, Space)> = None;
        loop {
            let first = self.next.fetch_add(HANDFUL, Ordering::Relaxed);
            let jobs = self.plan.jobs.iter().enumerate().skip(first).take(HANDFUL);
            if jobs.len() == 0 || first > self.last.load(Ordering::Relaxed) {
                return;
            }
            for (index, &Job { position, crash, pick, key }) in jobs {
                world.advance(self.entries, position);
                let current = match space.take() {
                    Some((at, space)) if at == position && space.crash() == crash => space,
                    _ => Space::new(&world, crash),
                };
                pick.spell(current.counts(), &mut choices);
                let life = Life {
                    job: index,
                    depth: self.explorer.depth - 1,
                    power: crash.power_after(None),
                    world: &world,
                    space: &current,
                    choices: &choices,
                    key,
                };
                if let Err(failure) = self.live(&pool, &life) {
                    let at = describe(self.entries, position);
                    let state = format!("{at}, {}{}", current.describe(&choices), failure.path);
                    self.report(index, position, state, failure.message);
                }
                space = Some((position, current));
            }
        }
    }

    /// Keeps the first few violations in the order of the jobs, whichever worker is faster.
    fn report(&self, job: usize, position: Position, state: String, message: String) {
        let mut found = lock(&self.found);
        let (seed, boundary) = (self.explorer.seed, position.events);
        found.insert(job, Violation { seed, boundary, state, message });
        while found.len() > self.explorer.most_violations {
            found.pop_last();
        }
        if found.len() == self.explorer.most_violations {
            let last = found.last_key_value().map_or(usize::MAX, |(&job, _)| job);
            self.last.store(last, Ordering::Relaxed);
        }
    }

    pub(crate) fn finish(self) -> Exploration {
        let last = self.last.into_inner();
        let inner = |mutex: Mutex<Vec<usize>>| mutex.into_inner().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.into_inner().unwrap_or_else(PoisonError::into_inner);
        let known = known.iter().filter(|(_, known)| known.first_job <= last);
        let met: HashSet<u64> = known.map(|((key, ..), _)| *key).collect();
        let sites = self.sites.into_inner().unwrap_or_else(PoisonError::into_inner);
        let planned = self.plan.jobs.len().min(last.saturating_add(1));
        Exploration {
            images: planned + met.len(),
            boundaries: self.plan.boundaries,
            recoveries_crashed: inner(self.crashed).into_iter().filter(|&job| job <= last).count(),
            recovery_sites: if last == usize::MAX { sites } else { BTreeSet::new() },
            violations: self
                .found
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
                .into_values()
                .collect(),
        }
    }

    /// Reopens the state after a crash, checks it, and crashes the work of the check.
    fn live(&self, pool: &Pool, life: &Life<'_>) -> Result<(), Failure> {
        let &Life { depth, power, world, space, choices, .. } = life;
        let trace = Trace::recovery(self.explorer.dropping, depth == 0);
        let disk = space.disk(world, choices);
        let (len, capacity) =
            (space.memory_len(world, choices), world.memory.as_ref().map_or(0, MemoryState::capacity));
        let memory = len.map(|len| {
            let buffer = pool.take(capacity, len, |bytes| space.fill_memory(world, choices, bytes));
            LabMemory::reopened(&trace, buffer, capacity)
        });
        let verdict = {
            let reopen = Reopen {
                disk: LabDisk::reopened(&trace, &disk),
                trace: trace.clone(),
                memory,
                crash: space.crash(),
                power_lost: power.is_some(),
                acked: &world.acked,
                pool: pool.clone(),
            };
            quiet::guarded(|| (self.check)(&reopen))
        };
        self.note_sites(&trace);
        verdict.map_err(|message| Failure { path: String::new(), message })?;
        if depth == 0 {
            return Ok(());
        }
        let entries = trace.take_entries();
        if entries.is_empty() {
            return Ok(());
        }
        if depth + 1 == self.explorer.depth {
            lock(&self.crashed).push(life.job);
        }
        self.crash_recovery(pool, life, &disk, &entries, trace.memory().as_deref())
    }

    /// Crashes a recovery (and the work of the check after it) at some of its boundaries.
    fn crash_recovery(
        &self,
        pool: &Pool,
        life: &Life<'_>,
        disk: &DiskImage,
        entries: &[Entry],
        memory: Option<&Buffer>,
    ) -> Result<(), Failure> {
        let mut world = restart(life, disk);
        let mut choices = Vec::new();
        for (position, crash, seed, limit) in self.recovery_boundaries(life, entries) {
            world.advance(entries, position);
            if world.is_paused() {
                continue;
            }
            let space = Space::new(&world, crash);
            for pick in pick::brief(space.counts(), limit, &mut Rng::with_seed(seed)) {
                if life.job > self.last.load(Ordering::Relaxed) {
                    return Ok(());
                }
                pick.spell(space.counts(), &mut choices);
                let verdict = self.known_or_live(pool, life, &world, &space, &choices);
                verdict.map_err(|failure| {
                    let (at, state) = (describe(entries, position), space.describe(&choices));
                    let path = format!("; then, while recovering, {at}, {state}{}", failure.path);
                    Failure { path, message: failure.message }
                })?;
            }
        }
        world.advance(entries, Position { events: entries.len(), parts: 0 });
        let live = world.memory.as_ref().map(MemoryState::live);
        match memory.zip(live).and_then(|(buffer, live)| buffer.first_difference(live)) {
            Some(offset) => Err(Failure { path: String::new(), message: bypass_message(offset) }),
            None => Ok(()),
        }
    }

    /// The verdict on an image that a crashed recovery left. Workers may meet the same image in any order: each
    /// gets the same verdict, so the order does not matter.
    fn known_or_live(
        &self,
        pool: &Pool,
        parent: &Life<'_>,
        world: &World,
        space: &Space,
        choices: &[u32],
    ) -> Result<(), Failure> {
        let power = space.crash().power_after(parent.power);
        let depth = parent.depth - 1;
        let key = key(space.crash(), power, world, space.hash(world, choices));
        if self.plan.keys.contains(&key) {
            // It has a job of its own.
            return Ok(());
        }
        let at_risk = depth > 0 && !space.crash().is_power();
        let meeting: Meeting = (key, depth, if at_risk { world.risk_hash() } else { 0 });
        if let Some(known) = lock(&self.known).get_mut(&meeting) {
            known.first_job = known.first_job.min(parent.job);
            return known.verdict.clone();
        }
        let verdict = self.live(pool, &Life { job: parent.job, depth, power, world, space, choices, key });
        let mut known = lock(&self.known);
        let entry = known.entry(meeting).or_insert(Known { verdict, first_job: parent.job });
        entry.first_job = entry.first_job.min(parent.job);
        entry.verdict.clone()
    }

    /// Where to crash a recovery, with a seed and a number of images for each place: everywhere if it is
    /// short; otherwise at its end, and at places drawn from the image's key.
    fn recovery_boundaries(&self, life: &Life<'_>, entries: &[Entry]) -> Vec<(Position, Crash, u64, usize)> {
        let mut rng = Rng::with_seed(hash::of((self.explorer.seed, life.key)));
        let crashes = self.explorer.crashes.iter().filter(|crash| crash.can_follow(life.power));
        let crashes: Vec<Crash> = crashes.copied().collect();
        let mut places = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let count = parts(&entry.event);
            if count > 1 && crashes.contains(&Crash::Process) {
                places.push((Position { events: index, parts: rng.usize(1..count) }, Crash::Process));
            }
            if matters(&entry.event) {
                let position = Position { events: index + 1, parts: 0 };
                places.extend(crashes.iter().map(|&crash| (position, crash)));
            }
        }
        let room = self.explorer.per_recovery;
        if places.len() > room {
            let at_the_end = crashes.len().min(places.len());
            let mut end = places.split_off(places.len() - at_the_end);
            rng.shuffle(&mut end);
            rng.shuffle(&mut places);
            end.append(&mut places);
            end.truncate(room);
            end.sort_by_key(|(position, _)| *position);
            places = end;
        }
        let limit = room / places.len().max(1);
        places.into_iter().map(|(position, crash)| (position, crash, rng.u64(..), limit.max(1))).collect()
    }

    fn note_sites(&self, trace: &Trace) {
        let seen = trace.sites();
        let mut sites = lock(&self.sites);
        if !seen.is_subset(&sites) {
            sites.extend(seen);
        }
    }
}

/// The world in which a recovery begins.
fn restart(life: &Life<'_>, disk: &DiskImage) -> World {
    let &Life { world, space, choices, .. } = life;
    if space.crash() == Crash::Process {
        let mut world = world.clone();
        world.process_died();
        return world;
    }
    let memory = space.memory_hash(world, choices).map(|(len, hash)| {
        let mut bytes = vec![0; len as usize];
        space.fill_memory(world, choices, &mut bytes);
        MemoryState::settled_hashed(bytes, world.memory.as_ref().map_or(len, MemoryState::capacity), hash)
    });
    world.restarted(memory, FilesState::settled(disk))
}

fn describe(entries: &[Entry], position: Position) -> String {
    let number = position.events;
    match (position.parts, number.checked_sub(1)) {
        (0, None) => "before the first event".into(),
        (0, Some(before)) => format!("after event {number} ({})", entries[before].event),
        (part, _) => format!("{part} parts into event {} ({})", number + 1, entries[number].event),
    }
}
