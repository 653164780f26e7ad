//! The possible states after a crash, from the acknowledgements before it.

use crate::script::{AFTERWARDS, Step};
use crate::state::{State, applied, interrupted};

/// Marks: step `n` of the script is acknowledged: `n`; state number `n`, as [`History::find`] counts, was found by
/// a recovery: `RECOVERED + n`; step `n` after a recovery: `AFTER + n`.
pub(crate) const RECOVERED: u64 = 10_000;
pub(crate) const AFTER: u64 = 20_000;
/// Marks from here on are not ours.
const OTHERS: u64 = 30_000;

/// The states that a store has been in, one after the other, and those that it was about to be in.
pub(crate) struct History {
    /// The states after none, one, two.. steps.
    past: Vec<State>,
    /// Which of them a power cut may not go behind.
    spared: usize,
    /// The states that the step in progress may have led to.
    under_way: Vec<State>,
    /// Whether a recovery has been through this already.
    pub(crate) recovered: bool,
}

impl History {
    pub(crate) fn new(script: &[Step], acked: &[u64]) -> History {
        let done = acked.iter().filter(|&&tag| tag < RECOVERED).count();
        let after = acked.iter().filter(|&&tag| (AFTER..OTHERS).contains(&tag)).count();
        let mut history =
            History { past: vec![State::new()], spared: 0, under_way: Vec::new(), recovered: false };
        for (number, &step) in script.iter().enumerate().take(done) {
            history.take(step, number as u64);
        }
        if let Some(&step) = script.get(done) {
            history.under_way = interrupted(history.now(), step, done as u64);
        }
        let Some(&found) = acked.iter().rev().find(|&&tag| (RECOVERED..AFTER).contains(&tag)) else {
            return history;
        };
        history.go_back_to((found - RECOVERED) as usize, script.get(done).copied());
        for (number, &step) in AFTERWARDS.iter().enumerate().take(after) {
            history.take(step, AFTER + number as u64);
        }
        if let Some(&step) = AFTERWARDS.get(after) {
            history.under_way = interrupted(history.now(), step, AFTER + after as u64);
        }
        history
    }

    fn now(&self) -> &State {
        &self.past[self.past.len() - 1]
    }

    fn take(&mut self, step: Step, number: u64) {
        // A batch for a table that does not exist is skipped, and promises nothing.
        let is_skipped = matches!(step, Step::Batch(_, name, _) if !self.now().contains_key(&name));
        self.past.push(applied(self.now(), step, number));
        if step.survives_power() && !is_skipped {
            self.spared = self.past.len() - 1;
        }
    }

    /// The state that a recovery found is the new past.
    fn go_back_to(&mut self, number: usize, under_way: Option<Step>) {
        let past = self.past.len();
        match number.checked_sub(past) {
            None => self.past.truncate(number + 1),
            Some(at) => {
                self.past.push(self.under_way[at].clone());
                if under_way.is_some_and(Step::survives_power) {
                    self.spared = past;
                }
            }
        }
        self.under_way.clear();
        self.recovered = true;
    }

    /// The number of a state, if the store may be in it: with the power on it has seen everything acknowledged.
    pub(crate) fn find(&self, state: &State, power_lost: bool) -> Option<usize> {
        let least = if power_lost { self.spared } else { self.past.len() - 1 };
        // A step in progress that changed nothing promises nothing either: of equal states, it is the one before.
        let past = self.past.iter().rposition(|other| other == state).filter(|&at| at >= least);
        past.or_else(|| self.under_way.iter().position(|other| other == state).map(|at| self.past.len() + at))
    }

    /// The possible states, for messages.
    pub(crate) fn describe(&self, power_lost: bool) -> String {
        let least = if power_lost { self.spared } else { self.past.len() - 1 };
        format!(
            "after {least} to {} steps: {:?}, or: {:?}",
            self.past.len() - 1,
            &self.past[least..],
            self.under_way
        )
    }
}
