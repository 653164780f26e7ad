//! Proves that a test notices the absence of every fault point.

use warpkeep_device::fault;

use super::report;

/// Runs tests until one fails, and returns the failure.
pub type Attempt<'a> = &'a dyn Fn() -> Option<String>;

/// A list of fault points, and the tests that notice the absence of each.
///
/// A gate is the only test of its program: a fault point is left out of the whole process.
pub struct Gate<'a> {
    name: &'static str,
    mutants: Vec<(&'static str, &'static str, Attempt<'a>)>,
}

impl<'a> Gate<'a> {
    /// An empty gate with this name.
    pub fn new(name: &'static str) -> Self {
        Self { name, mutants: Vec::new() }
    }

    /// Adds a fault point, the form in which it is tried if there are several, and the test that notices its
    /// absence.
    #[must_use]
    pub fn with(mut self, point: &'static str, form: &'static str, attempt: Attempt<'a>) -> Self {
        self.mutants.push((point, form, attempt));
        self
    }

    /// Drops each fault point in turn, and reports how many were noticed. The caller has shown that the tests pass
    /// while nothing is dropped.
    ///
    /// # Panics
    /// If no code reaches a point, or if the absence of one is not noticed.
    pub fn run(&self) {
        let mut caught = 0;
        for (point, form, attempt) in &self.mutants {
            let active = fault::activate(point);
            let wrong = attempt();
            assert!(active.reached() > 0, "nothing comes to {point} {form}");
            drop(active);
            caught += usize::from(wrong.is_some());
            let comma = if form.is_empty() { "" } else { ", " };
            report(&format!("without {point}{comma}{form}: {}", wrong.as_deref().unwrap_or("NOT NOTICED")));
        }
        let of = self.mutants.len();
        report(&format!("mutation gate of {}: {caught} of {of} caught", self.name));
        assert_eq!(caught, of);
    }
}
