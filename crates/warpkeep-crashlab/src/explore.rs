//! The explorer: crashes a recorded scenario everywhere, and checks what recovery makes of it.

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
/// At every boundary, that is after every event, it takes what a crash could leave: all of it, if that is at
/// most [`per_boundary`](Explorer::per_boundary) images. Otherwise it takes those in which nothing at risk
/// survived, everything did, each thing alone did, each thing alone did not, and seeded random ones. (Of more
/// things than that limit, as many as the limit are taken alone.) An image is tried once for the same
/// acknowledgements, however many boundaries could leave it.
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

    /// What to draw samples with; 1 if not said.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Explorer {
        self.seed = seed;
        self
    }

    /// Up to how many images of a boundary, and kind of crash, are tried exhaustively; 64 if not said.
    #[must_use]
    pub fn per_boundary(mut self, images: usize) -> Explorer {
        self.per_boundary = images.max(1);
        self
    }

    /// How many images are tried of a recovery that is itself crashed, over all its boundaries; 8 if not said.
    #[must_use]
    pub fn per_recovery(mut self, images: usize) -> Explorer {
        self.per_recovery = images.max(1);
        self
    }

    /// How many crashes in a row: 1 crashes the scenario only, 2 the recovery too, 3 the recovery from that;
    /// 2 if not said.
    #[must_use]
    pub fn depth(mut self, crashes: usize) -> Explorer {
        self.depth = crashes.max(1);
        self
    }

    /// On how many threads; on all cores if not said.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Explorer {
        self.threads = threads.max(1);
        self
    }

    /// After how many violations to stop; 3 if not said.
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

    /// Crashes the scenario that was recorded, and calls `check` with what each crash left. The check opens it
    /// with the real recovery code and says what is wrong, if anything; a panic is a violation too.
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

/// Something that recovery did not cope with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed it was found with.
    pub seed: u64,
    /// After how many events of the scenario the (first) crash came.
    pub boundary: usize,
    /// What the crash left.
    pub state: String,
    /// What the check said.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}\n    (seed {})", self.message, self.state, self.seed)
    }
}

/// What was found.
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
    /// Whether nothing was violated.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Fails the test unless nothing was violated, and something was tried.
    ///
    /// # Panics
    /// With all that was found.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean() && self.images > 0, "{self}");
    }

    /// Fails the test unless something was violated.
    ///
    /// # Panics
    /// With how much was tried in vain.
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
