//! Commits of transactions, noticed by batches that read without holding their keys.

use std::sync::atomic::{AtomicU64, Ordering};

/// Commits that are under way, and how many have ended.
#[derive(Debug, Default)]
pub(crate) struct Commits(AtomicU64);

/// The lower bits count the commits in progress, at most one for each worker.
const UNDER_WAY: u64 = (1 << 16) - 1;

/// A commit that is under way until this is dropped.
pub(crate) struct Commit<'c>(&'c Commits);

impl Commits {
    /// A transaction begins to change keys.
    pub(crate) fn begin(&self) -> Commit<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Commit(self)
    }

    /// The number of commits so far; `None` while one is in progress.
    #[inline]
    pub(crate) fn look(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|seen| seen & UNDER_WAY == 0)
    }

    /// Whether no commit was in progress since then: reads in between saw one state, as far as transactions are
    /// concerned.
    #[inline]
    pub(crate) fn none_since(&self, seen: Option<u64>) -> bool {
        // A reader that has read a part of a commit sees that it has begun.
        std::sync::atomic::fence(Ordering::Acquire);
        seen.is_some() && self.look() == seen
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        // One less under way, and one more that has ended.
        self.0.0.fetch_add(UNDER_WAY, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_seen_while_it_lasts_and_after() {
        let commits = Commits::default();
        let before = commits.look();
        assert!(before.is_some() && commits.none_since(before));
        let first = commits.begin();
        assert!(commits.look().is_none() && !commits.none_since(before));
        let second = commits.begin();
        drop(first);
        assert!(commits.look().is_none());
        drop(second);
        assert!(commits.look().is_some() && !commits.none_since(before));
        assert!(commits.none_since(commits.look()));
    }
}
