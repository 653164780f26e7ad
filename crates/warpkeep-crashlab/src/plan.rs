//! Which crashes to try, decided before any is tried: the same for every number of threads.

use std::collections::HashSet;

use fastrand::Rng;

use crate::event::{Entry, Event};
use crate::explore::Explorer;
use crate::hash;
use crate::model::Crash;
use crate::pick::{self, Pick};
use crate::space::Space;
use crate::world::{Position, World, parts};

/// One crash to try.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) position: Position,
    pub(crate) crash: Crash,
    pub(crate) pick: Pick,
    /// Stands for the state and all else a check can see.
    pub(crate) key: u64,
}

/// The crashes to try, in the order of the trace.
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    pub(crate) keys: HashSet<u64>,
    pub(crate) boundaries: usize,
    /// The world when the scenario had ended.
    pub(crate) end: World,
}

/// Everything a check can see of a crash, as one hash.
pub(crate) fn key(crash: Crash, power: Option<Crash>, world: &World, state: u64) -> u64 {
    hash::of((crash.class(), power.map(Crash::class), world.acked_hash(), state))
}

/// Whether the set of possible states, or of promises, differs before and after this event.
pub(crate) fn matters(event: &Event) -> bool {
    !matches!(event, Event::Flush { .. } | Event::Pause)
}

struct Planner<'a> {
    explorer: &'a Explorer,
    plan: Plan,
    choices: Vec<u32>,
}

impl Plan {
    pub(crate) fn new(explorer: &Explorer, entries: &[Entry]) -> Plan {
        let plan = Plan { jobs: Vec::new(), keys: HashSet::new(), boundaries: 0, end: World::default() };
        let mut planner = Planner { explorer, plan, choices: Vec::new() };
        let mut world = World::default();
        planner.boundary(&world, Position::default());
        for (index, entry) in entries.iter().enumerate() {
            if !world.is_paused() && explorer.crashes.contains(&Crash::Process) {
                for parts in planner.cuts(index, parts(&entry.event)) {
                    let position = Position { events: index, parts };
                    world.advance(entries, position);
                    planner.crashes(&world, position, Crash::Process, 0);
                }
            }
            let position = Position { events: index + 1, parts: 0 };
            world.advance(entries, position);
            if matters(&entry.event) && !world.is_paused() {
                planner.boundary(&world, position);
            }
        }
        planner.plan.end = world;
        planner.plan
    }
}

impl Planner<'_> {
    fn boundary(&mut self, world: &World, position: Position) {
        self.plan.boundaries += 1;
        for (index, &crash) in self.explorer.crashes.iter().enumerate() {
            self.crashes(world, position, crash, index);
        }
    }

    /// Where in the middle of an event the process may die: everywhere, or at a limited number of places.
    fn cuts(&self, event: usize, parts: usize) -> Vec<usize> {
        let mut cuts: Vec<usize> = (1..parts).collect();
        if cuts.len() > self.explorer.per_boundary {
            Rng::with_seed(hash::of((self.explorer.seed, event, "cuts"))).shuffle(&mut cuts);
            cuts.truncate(self.explorer.per_boundary);
            cuts.sort_unstable();
        }
        cuts
    }

    fn crashes(&mut self, world: &World, position: Position, crash: Crash, index: usize) {
        let space = Space::new(world, crash);
        let mut rng = Rng::with_seed(hash::of((self.explorer.seed, position, index)));
        for pick in pick::thorough(space.counts(), self.explorer.per_boundary, &mut rng) {
            pick.spell(space.counts(), &mut self.choices);
            let key = key(crash, crash.power_after(None), world, space.hash(world, &self.choices));
            if self.plan.keys.insert(key) {
                self.plan.jobs.push(Job { position, crash, pick, key });
            }
        }
    }
}
