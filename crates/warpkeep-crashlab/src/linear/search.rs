//! The search for an order that explains every answer.

use std::collections::{HashMap, HashSet};

use super::history::Operation;
use super::register::{Register, State};

/// The search gives up after this many configurations: more than any history of a few threads needs, and few enough
/// for memory.
const MOST_PLACES: usize = 2_000_000;

/// The result of a search.
#[derive(Debug)]
pub(crate) enum Verdict {
    Explained {
        places: usize,
    },
    /// With the longest order that explains as many as it has, by index.
    Unexplained {
        furthest: Vec<usize>,
    },
    Undecided {
        places: usize,
    },
}

/// The set of operations done. Calls are nearly in order, so one number describes most of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done {
    /// Answered operations before this one, by call, are all done.
    all_before: usize,
    /// Others that are done, in order: answered ones after it, and ones that were never answered.
    others: Vec<usize>,
}

impl Done {
    fn has(&self, answered: usize, operation: usize) -> bool {
        (operation < answered && operation < self.all_before) || self.others.binary_search(&operation).is_ok()
    }

    fn with(&self, answered: usize, operation: usize) -> Done {
        let mut next = self.clone();
        if let Err(at) = next.others.binary_search(&operation) {
            next.others.insert(at, operation);
        }
        while next.all_before < answered && next.others.first() == Some(&next.all_before) {
            next.others.remove(0);
            next.all_before += 1;
        }
        next
    }
}

/// A place of the search, and the ways that lead on from it.
struct Place {
    done: Done,
    ways: std::vec::IntoIter<(usize, State)>,
}

pub(crate) struct Search<'h> {
    register: &'h Register,
    start: State,
    /// Answered ones by the time of their call, then the unanswered ones.
    operations: Vec<&'h Operation>,
    /// Where each was in the history.
    indices: Vec<usize>,
    /// How many are answered.
    answered: usize,
    /// The preceding operation of the same batch.
    before: Vec<Option<usize>>,
    /// Whether later operations of the same batch exist.
    is_followed: Vec<bool>,
}

impl<'h> Search<'h> {
    pub(crate) fn new(register: &'h Register, start: State, history: &'h [Operation]) -> Search<'h> {
        let mut indices: Vec<usize> = (0..history.len()).collect();
        // Stable, so that the order inside a batch stays.
        indices.sort_by_key(|&index| (history[index].answer.is_none(), history[index].called));
        let operations: Vec<&Operation> = indices.iter().map(|&index| &history[index]).collect();
        let answered = operations.iter().filter(|operation| operation.answer.is_some()).count();
        let place_of: HashMap<usize, usize> =
            indices.iter().enumerate().map(|(place, &index)| (index, place)).collect();
        let mut last_of_batch = HashMap::new();
        let mut before = vec![None; history.len()];
        for (index, operation) in history.iter().enumerate() {
            before[place_of[&index]] =
                last_of_batch.insert((operation.thread, operation.batch), place_of[&index]);
        }
        let mut is_followed = vec![false; history.len()];
        before.iter().flatten().for_each(|&place| is_followed[place] = true);
        Search { register, start, operations, indices, answered, before, is_followed }
    }

    pub(crate) fn run(&self) -> Verdict {
        let done = Done { all_before: 0, others: Vec::new() };
        let mut seen: HashSet<(Done, State)> = HashSet::new();
        let mut order: Vec<usize> = Vec::new();
        let mut furthest: Vec<usize> = Vec::new();
        let ways = self.ways(&done, &self.start);
        let mut path = vec![Place { done, ways }];
        while let Some(place) = path.last_mut() {
            if place.done.all_before == self.answered {
                return Verdict::Explained { places: seen.len() };
            }
            let Some((next, state)) = place.ways.next() else {
                path.pop();
                order.pop();
                continue;
            };
            let done = place.done.with(self.answered, next);
            if !seen.insert((done.clone(), state.clone())) {
                continue;
            }
            if seen.len() > MOST_PLACES {
                return Verdict::Undecided { places: seen.len() };
            }
            order.push(next);
            if order.len() > furthest.len() {
                furthest.clone_from(&order);
            }
            let ways = self.ways(&done, &state);
            path.push(Place { done, ways });
        }
        Verdict::Unexplained { furthest: furthest.into_iter().map(|place| self.indices[place]).collect() }
    }

    /// The operations that can come next, and the states they lead to.
    fn ways(&self, done: &Done, state: &State) -> std::vec::IntoIter<(usize, State)> {
        let mut ways: Vec<(u64, usize, State)> = Vec::new();
        // The earliest answer of an operation not yet done: operations called after it come after it.
        let mut first_answer = u64::MAX;
        let mut rest = done.all_before..self.operations.len();
        while let Some(at) = rest.next() {
            let operation = self.operations[at];
            if operation.called > first_answer {
                // So were all answered ones that follow, but perhaps not all that were never answered.
                rest.start = rest.start.max(self.answered);
                continue;
            }
            if done.has(self.answered, at) {
                continue;
            }
            if let Some((answered, _)) = &operation.answer {
                first_answer = first_answer.min(*answered);
            }
            if self.before[at].is_some_and(|before| !done.has(self.answered, before)) {
                continue;
            }
            let Some((_, answer)) = &operation.answer else {
                // Last: in most cases it did not happen, or no operation saw it.
                let nexts = self.unanswered(at, state).into_iter();
                ways.extend(nexts.map(|next| (u64::MAX, at, next)));
                continue;
            };
            let Some(next) = state.answered(self.register, &operation.call, answer) else { continue };
            if next == *state {
                // It changes nothing and is right in this state: if there is an order, there is one in which it
                // comes next.
                return vec![(at, next)].into_iter();
            }
            // In the order of versions, where they are known, the first way is mostly the right one.
            ways.push((answer.version.unwrap_or(0), at, next));
        }
        ways.sort_by_key(|(hint, at, _)| (*hint, *at));
        ways.into_iter().map(|(_, at, next)| (at, next)).collect::<Vec<_>>().into_iter()
    }

    /// The possible states after an operation that was never answered.
    fn unanswered(&self, at: usize, state: &State) -> Vec<State> {
        let done = state.unanswered(self.register, &self.operations[at].call);
        // The case of no effect matters only to later operations of its batch: without them, it can be left out.
        let idle = self.is_followed[at] && (done.is_none() || state.is_vague());
        done.into_iter().chain(idle.then(|| state.clone())).collect()
    }
}
