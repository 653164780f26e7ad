//! The suites' view of a container.

use std::fmt::Debug;

use warpkeep_device::{Device, DeviceError, Program};

use super::Dice;

/// A container in device memory whose operations run in batches, as kernels.
pub trait Container: Sized {
    /// One operation of a batch.
    type Operation: Clone + Debug;
    /// The answer to an operation.
    type Answer: Debug;
    /// The expected contents of the container, on the host: usually a map.
    type Model: Default;

    /// Its name in reports.
    const NAME: &'static str;

    /// The programs that its kernels are in.
    fn programs() -> Vec<Program>;

    /// An empty container for about `operations` operations.
    fn create(device: &Device, operations: usize) -> Result<Self, DeviceError>;

    /// A random operation. Few different keys make operations collide.
    fn operation(dice: &mut Dice) -> Self::Operation;

    /// Runs a batch and waits for it.
    fn run(&mut self, batch: &[Self::Operation]) -> Result<Vec<Self::Answer>, DeviceError>;

    /// Applies a batch to the model, and returns an error if its answers are wrong. Operations of one batch run at
    /// the same time, so where their order matters every possible order is right.
    fn check(
        model: &mut Self::Model,
        batch: &[Self::Operation],
        answers: &[Self::Answer],
    ) -> Result<(), String>;

    /// Returns an error if the container's contents differ from the model.
    fn compare(&self, model: &Self::Model) -> Result<(), String>;
}
