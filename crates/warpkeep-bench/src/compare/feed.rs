//! The source of a thread's operations.

use std::ops::Range;

use crate::workload::{Action, Draws, Script, Workload};

/// Operations that are handed over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    pub(crate) numbers: &'a [u64],
    /// The action for each; empty if it is the same for all.
    pub(crate) actions: &'a [Action],
}

/// The operations of one thread, block by block.
#[derive(Debug)]
pub(crate) struct Feed {
    source: Source,
    block: Vec<u64>,
}

#[derive(Debug)]
enum Source {
    /// Drawn on the spot, which costs almost nothing.
    Draws { draws: Draws, absent: bool },
    /// One after the other.
    Range { start: u64, left: Range<u64> },
    /// Drawn ahead, over and over.
    Script { script: Script, at: usize },
    /// Drawn ahead as ages, which are mapped to items when their turn has come.
    Latest { script: Script, at: usize, items: u64, start: u64, left: Range<u64> },
}

impl Feed {
    pub(crate) fn draws(draws: Draws, absent: bool) -> Feed {
        Feed::of(Source::Draws { draws, absent })
    }

    pub(crate) fn range(range: Range<u64>) -> Feed {
        Feed::of(Source::Range { start: range.start, left: range })
    }

    pub(crate) fn script(script: Script) -> Feed {
        Feed::of(Source::Script { script, at: 0 })
    }

    /// Ages among the existing items and those inserted here, which are taken from a range.
    pub(crate) fn latest(script: Script, items: u64, range: Range<u64>) -> Feed {
        Feed::of(Source::Latest { script, at: 0, items, start: range.start, left: range })
    }

    fn of(source: Source) -> Feed {
        Feed { source, block: Vec::new() }
    }

    /// At most `len` operations; none if there are no more.
    pub(crate) fn next(&mut self, len: usize) -> Block<'_> {
        let Feed { source, block } = self;
        block.clear();
        let mut actions: &[Action] = &[];
        match source {
            Source::Draws { draws, absent: false } => block.extend(draws.take(len)),
            Source::Draws { draws, absent: true } => block.extend(draws.take(len).map(Workload::absent)),
            Source::Range { left, .. } => block.extend(left.take(len)),
            Source::Script { script, at } => {
                let part = next_part(script, at, len);
                let actions = if script.actions.is_empty() { &[] } else { &script.actions[part.clone()] };
                return Block { numbers: &script.numbers[part], actions };
            }
            Source::Latest { script, at, items, start, left } => {
                let part = next_part(script, at, len);
                // Only items inserted in earlier blocks: some contestants do a block's reads before its writes.
                let inserted = left.start - *start;
                let newest = |age: u64| match age.checked_sub(inserted) {
                    None => *start + inserted - 1 - age,
                    Some(age) => *items - 1 - age % *items,
                };
                for (&age, action) in script.numbers[part.clone()].iter().zip(&script.actions[part.clone()]) {
                    let number = if *action == Action::Put { left.next() } else { Some(newest(age)) };
                    let Some(number) = number else { break };
                    block.push(number);
                }
                actions = &script.actions[part][..block.len()];
            }
        }
        Block { numbers: block, actions }
    }

    /// The used part of a range.
    pub(crate) fn used(&self) -> Option<Range<u64>> {
        match &self.source {
            Source::Range { start, left } | Source::Latest { start, left, .. } => Some(*start..left.start),
            Source::Draws { .. } | Source::Script { .. } => None,
        }
    }
}

/// The next places of a script, which begins again when it ends.
fn next_part(script: &Script, at: &mut usize, len: usize) -> Range<usize> {
    if *at == script.numbers.len() {
        *at = 0;
    }
    let part = *at..(*at + len).min(script.numbers.len());
    *at = part.end;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_and_a_script_does_not() {
        let mut range = Feed::range(5..8);
        assert_eq!(range.next(2).numbers, [5, 6]);
        assert_eq!(range.used(), Some(5..7));
        assert_eq!(range.next(2).numbers, [7]);
        assert_eq!(range.next(2).numbers, [0_u64; 0]);
        let mut script = Feed::script(Script { numbers: vec![1, 2, 3], actions: Vec::new() });
        let next: Vec<Vec<u64>> = (0..4).map(|_| script.next(2).numbers.to_vec()).collect();
        assert_eq!(next, [vec![1, 2], vec![3], vec![1, 2], vec![3]]);
    }

    #[test]
    fn the_latest_are_those_inserted_in_blocks_before() {
        use Action::{Get, Put};
        let script = Script {
            numbers: vec![0, 0, 1, 9, 0, 1, 2, 0],
            actions: vec![Get, Put, Put, Get, Get, Get, Get, Put],
        };
        let mut feed = Feed::latest(script, 10, 100..103);
        let block = feed.next(4);
        assert_eq!((block.numbers, block.actions), (&[9, 100, 101, 0][..], &[Get, Put, Put, Get][..]));
        let block = feed.next(4);
        assert_eq!((block.numbers, block.actions), (&[101, 100, 9, 102][..], &[Get, Get, Get, Put][..]));
        assert_eq!(feed.used(), Some(100..103));
        // The oldest item is out of range since the newest came in; then nothing is left to insert.
        assert_eq!(feed.next(4).numbers, [102]);
        assert_eq!(feed.next(0).numbers, [0_u64; 0]);
    }
}
