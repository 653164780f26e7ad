//! Devices that are lost while a container uses them.

use warpkeep_device::{Device, Mode};

use super::oracle::Load;
use super::{Container, Dice, report};

/// At how many steps of a run the device is lost.
const POINTS: u64 = 40;

/// Loses the device at many steps of a run. The batch that is running fails with that error, and so does every
/// later one; nothing panics or hangs, and other devices are not affected.
///
/// # Panics
/// If a call succeeds on a lost device, or fails with another error.
pub fn losses<C: Container>() {
    let whole = run::<C>(None);
    assert!(whole.lost_in.is_none(), "the device was lost without being asked to be");
    let mut lost = 0;
    for point in 1..=POINTS {
        let step = whole.steps * point / (POINTS + 1);
        let outcome = run::<C>(Some(step.max(1)));
        lost += u64::from(outcome.lost_in.is_some());
    }
    assert!(lost > 0, "no kernel ran");
    report(&format!("{}: {lost} devices lost", C::NAME));
    assert!(run::<C>(None).lost_in.is_none(), "another device is good");
}

struct Outcome {
    /// The batch in which the device was lost.
    lost_in: Option<usize>,
    /// Steps of the simulator.
    steps: u64,
}

fn run<C: Container>(lose_at: Option<u64>) -> Outcome {
    let device = Device::simulated(Mode::seeded(5)).expect("a simulator");
    device.simulator().expect("it is one").crash_at(lose_at);
    let (load, mut dice) = (Load { seed: 5, batches: 4, operations: 40 }, Dice::new(5));
    let mut outcome = Outcome { lost_in: None, steps: 0 };
    let mut container = match C::create(&device, load.batches * load.operations) {
        Ok(container) => container,
        Err(error) => {
            assert!(lose_at.is_some() && error.is_lost(), "{error}");
            return Outcome { lost_in: Some(0), ..outcome };
        }
    };
    let mut model = C::Model::default();
    for number in 0..load.batches {
        let batch = load.batch::<C>(number, &mut dice);
        match container.run(&batch) {
            // An empty batch needs no device.
            Ok(answers) if outcome.lost_in.is_none() || batch.is_empty() => {
                C::check(&mut model, &batch, &answers).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
            Ok(answers) => panic!("answers of a device that is lost: {answers:?}"),
            Err(error) => {
                assert!(lose_at.is_some() && error.is_lost(), "{error}");
                outcome.lost_in.get_or_insert(number);
            }
        }
    }
    if outcome.lost_in.is_some() {
        assert!(container.compare(&model).is_err(), "what a lost device holds cannot be read");
    }
    outcome.steps = device.last_run().map_or(0, |report| report.now);
    outcome
}
