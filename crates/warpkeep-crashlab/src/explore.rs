//! The explorer: crashes a recorded scenario at every point, and checks the recovery.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZero;
use std::thread;

use crate::event::Site;
use crate::model::Crash;
use crate::plan::Plan;
use crate::reopen::Reopen;
use crate::run::Run;
use crate::trace::Trace;

/// How to explore.
///
/// At every boundary, that is after every event, it takes the images that a crash could leave: all of them, if
/// there are at most [`per_boundary`](Explorer::per_boundary). Otherwise it takes those in which nothing at risk
/// survived, everything did, each thing alone did, each thing alone did not, and seeded random ones. (If more
/// things than the limit are at risk, only that many are taken alone.) An image is tried once for the same
/// acknowledgements, even if several boundaries could leave it.
///
/// The findings depend on the trace, the settings and the seed, not on the number of threads.
#[derive(Clone, Debug)]
pub struct Explorer {
    pub(crate) crashes: Vec<Crash>,
    pub(crate) seed: u64,
    pub(crate) per_boundary: usize,
    pub(crate) per_recovery: usize,
    pub(crate) depth: usize,
    pub(crate) threads: usize,
    pub(crate) most_violations: usize,
    pub(crate) dropping: Option<Site>,
}

impl Explorer {
    /// Explores these crashes, and one crash of each recovery.
    pub fn new(crashes: impl IntoIterator<Item = Crash>) -> Explorer {
        Explorer {
            crashes: crashes.into_iter().collect(),
            seed: 1,
            per_boundary: 64,
            per_recovery: 8,
            depth: 2,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            most_violations: 3,
            dropping: None,
        }
    }

    /// The seed of the samples; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Explorer {
        self.seed = seed;
        self
    }

    /// Up to how many images of a boundary, and kind of crash, are tried exhaustively; 64 by default.
    #[must_use]
    pub fn per_boundary(mut self, images: usize) -> Explorer {
        self.per_boundary = images.max(1);
        self
    }

    /// How many images are tried of a recovery that is itself crashed, over all its boundaries; 8 by default.
    #[must_use]
    pub fn per_recovery(mut self, images: usize) -> Explorer {
        self.per_recovery = images.max(1);
        self
    }

    /// How many crashes in a row: 1 crashes the scenario only, 2 the recovery too, 3 the recovery from that;
    /// 2 by default.
    #[must_use]
    pub fn depth(mut self, crashes: usize) -> Explorer {
        self.depth = crashes.max(1);
        self
    }

    /// The number of threads; all cores by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Explorer {
        self.threads = threads.max(1);
        self
    }

    /// The number of violations after which to stop; 3 by default.
    #[must_use]
    pub fn most_violations(mut self, violations: usize) -> Explorer {
        self.most_violations = violations.max(1);
        self
    }

    /// Lets the calls of one site have no effect in recoveries, as [`Trace::dropping`] does in the scenario.
    #[must_use]
    pub fn dropping(mut self, site: Site) -> Explorer {
        self.dropping = Some(site);
        self
    }

    /// Crashes the recorded scenario, and calls `check` with the state after each crash. The check opens it with
    /// the real recovery code and returns an error if something is wrong; a panic is a violation too.
    pub fn explore(
        &self,
        trace: &Trace,
        check: impl Fn(&Reopen<'_>) -> Result<(), String> + Sync,
    ) -> Exploration {
        let entries = trace.entries();
        let plan = Plan::new(self, &entries);
        let mut bypassed = None;
        if let (Some(buffer), Some(memory)) = (trace.memory(), &plan.end.memory) {
            bypassed = buffer.first_difference(memory.live());
        }
        if let Some(offset) = bypassed {
            let message = bypass_message(offset);
            let violation =
                Violation { seed: self.seed, boundary: entries.len(), state: "the scenario".into(), message };
            return Exploration { violations: vec![violation], ..Exploration::default() };
        }
        let run = Run::new(self, &entries, &plan, &check);
        thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|| run.work());
            }
            run.work();
        });
        run.finish()
    }
}

pub(crate) fn bypass_message(offset: u64) -> String {
    format!("the memory at {offset:#x} was changed without the recorder; store to it through `Persist`")
}

/// A state that recovery did not handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed it was found with.
    pub seed: u64,
    /// The number of events of the scenario before the (first) crash.
    pub boundary: usize,
    /// The state after the crash.
    pub state: String,
    /// The error of the check.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}\n    (seed {})", self.message, self.state, self.seed)
    }
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "an exploration says what it found and does not fail by itself"]
pub struct Exploration {
    /// Distinct images tried: no two with the same bytes, acknowledgements and kind of crash.
    pub images: usize,
    /// Points of the scenario at which it was crashed.
    pub boundaries: usize,
    /// Recoveries that were themselves crashed.
    pub recoveries_crashed: usize,
    /// The sites that recoveries passed; none if it stopped early.
    pub recovery_sites: BTreeSet<Site>,
    /// The first few violations, in the order of the scenario.
    pub violations: Vec<Violation>,
}

impl Exploration {
    /// Whether there were no violations.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Fails the test if there was a violation, or if nothing was tried.
    ///
    /// # Panics
    /// With all violations.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean() && self.images > 0, "{self}");
    }

    /// Fails the test if there was no violation.
    ///
    /// # Panics
    /// With the number of images tried.
    #[track_caller]
    pub fn assert_caught(&self) {
        assert!(!self.is_clean(), "nothing was violated in {self}");
    }
}

impl fmt::Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exploration { images, boundaries, recoveries_crashed, violations, .. } = self;
        write!(f, "{images} images at {boundaries} boundaries, {recoveries_crashed} recoveries crashed")?;
        for violation in violations {
            write!(f, "\n  violation: {violation}")?;
        }
        Ok(())
    }
}
