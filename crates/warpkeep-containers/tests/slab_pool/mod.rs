//! A SlabAlloc as the suites of containers see it: two blocks, of which few units are free.

use std::collections::BTreeSet;

use warpkeep_containers::{SlabAlloc, SlabAllocOptions};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

const UNITS: usize = 2048;
/// Units that batches claim and give back.
const PLAY: usize = 24;

pub(crate) struct Pool {
    units: SlabAlloc,
    /// Taken at first, and never given back.
    base: BTreeSet<u32>,
    /// Taken by batches.
    held: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Claim,
    /// Gives back one of the units that are held, unless an operation before it does: a handle that is handed out again in the same batch
    /// could be given back twice.
    GiveBack(u64),
}

#[derive(Debug)]
pub(crate) enum Answer {
    Claimed(Option<u32>),
    /// Whether it was accepted; nothing if there was none to give back.
    GivenBack(Option<(u32, bool)>),
}

impl Container for Pool {
    type Operation = Operation;
    type Answer = Answer;
    type Model = BTreeSet<u32>;

    const NAME: &'static str = "slab allocator";

    fn programs() -> Vec<Program> {
        vec![SlabAlloc::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let options = SlabAllocOptions { initial_units: UNITS as u32, most_units: UNITS as u32 };
        let units = SlabAlloc::new(device, 32, options)?;
        units.allocate(UNITS)?;
        let free: Vec<u32> = (0..PLAY as u32).map(|at| at * 97 % UNITS as u32).collect();
        units.release(&free)?;
        let base = (0..UNITS as u32).filter(|handle| !free.contains(handle)).collect();
        Ok(Self { units, base, held: Vec::new() })
    }

    fn operation(dice: &mut Dice) -> Operation {
        if dice.below(2) == 0 { Operation::Claim } else { Operation::GiveBack(dice.below(1 << 30)) }
    }

    fn run(&mut self, batch: &[Operation]) -> Result<Vec<Answer>, DeviceError> {
        let mut left = self.held.clone();
        let chosen: Vec<Option<u32>> = batch
            .iter()
            .map(|operation| match operation {
                Operation::GiveBack(at) if !left.is_empty() => {
                    Some(left.swap_remove((*at % left.len() as u64) as usize))
                }
                _ => None,
            })
            .collect();
        let given: Vec<u32> = chosen.iter().flatten().copied().collect();
        let claims = batch.iter().filter(|operation| matches!(operation, Operation::Claim)).count();
        let (claimed, refused) = self.units.exchange(&given, claims)?;
        let mut claims = claimed.iter().copied();
        let answers = batch
            .iter()
            .zip(chosen)
            .map(|(operation, chosen)| match operation {
                Operation::Claim => Answer::Claimed(claims.next()),
                Operation::GiveBack(_) => {
                    Answer::GivenBack(chosen.map(|handle| (handle, !refused.contains(&handle))))
                }
            })
            .collect();
        self.held = left;
        self.held.extend(claimed);
        Ok(answers)
    }

    fn check(model: &mut BTreeSet<u32>, batch: &[Operation], answers: &[Answer]) -> Result<(), String> {
        let before = model.len();
        for answer in answers {
            match answer {
                Answer::GivenBack(Some((handle, true))) if model.remove(handle) => {}
                Answer::GivenBack(Some((handle, _))) => {
                    return Err(format!("unit {handle} is taken, and was refused"));
                }
                _ => {}
            }
        }
        let mut claimed = 0;
        for answer in answers {
            if let Answer::Claimed(Some(handle)) = answer {
                claimed += 1;
                if !model.insert(*handle) {
                    return Err(format!("unit {handle} was handed out twice"));
                }
            }
        }
        let claims = batch.iter().filter(|operation| matches!(operation, Operation::Claim)).count();
        // What was free before the batch is found; what is given back meanwhile can be missed.
        let sure = claims.min(PLAY - before);
        match claimed >= sure {
            true => Ok(()),
            false => {
                Err(format!("{claimed} of {claims} claims succeeded, and {} units were free", PLAY - before))
            }
        }
    }

    fn compare(&self, model: &BTreeSet<u32>) -> Result<(), String> {
        let contents = self.units.inspect().map_err(|error| error.to_string())?;
        let taken: BTreeSet<u32> = contents.taken.into_iter().collect();
        let expected: BTreeSet<u32> = self.base.union(model).copied().collect();
        let counted = self.units.in_use().map_err(|error| error.to_string())?;
        if contents.hidden > 0 {
            return Err(format!("{} free units are hidden", contents.hidden));
        }
        if taken != expected || counted != expected.len() as u64 {
            let differ: Vec<&u32> = taken.symmetric_difference(&expected).take(8).collect();
            return Err(format!(
                "{counted} units are counted, and not {}; {differ:?} and perhaps more differ",
                expected.len()
            ));
        }
        Ok(())
    }
}
