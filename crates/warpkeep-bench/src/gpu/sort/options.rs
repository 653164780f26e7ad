//! What is sorted, and how often.

use warpkeep_device::DeviceChoice;

use super::Shape;
use crate::BenchError;
use crate::gpu::{check, invalid};

/// Items of a sort at the most.
const MOST_ITEMS: usize = 1 << 30;

/// What is sorted, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Items of a sort, one case each.
    pub items: Vec<usize>,
    /// The columns, one case each.
    pub shapes: Vec<Shape>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device; on the simulator as many items as it handles in a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let items = match device {
            DeviceChoice::Sim => vec![1 << 10, 1 << 12],
            _ => vec![1 << 16, 1 << 20, 1 << 24],
        };
        let shapes = Shape::USUAL.to_vec();
        Options { device, items, shapes, rounds: 3, seed: 1, command: "warpkeep bench gpu sort".to_owned() }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.items)?;
        if self.shapes.is_empty() {
            return invalid("at least one shape is needed; give --shapes 8+4");
        }
        if self.items.iter().any(|items| !(2..=MOST_ITEMS).contains(items)) {
            return invalid("a sort has 2 to 2^30 items; give --items 2^20");
        }
        Ok(())
    }
}
