//! Which rows must, may and cannot be there.

use warpkeep::Durability;

use super::plan::{Plan, Stamp, Step};

/// The acknowledged writes of a round, in the order in which the parent received the acknowledgements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acks(pub(crate) Vec<Stamp>);

impl Acks {
    /// The number of acknowledged steps of a writer, from its first.
    fn of(&self, writer: u32) -> u32 {
        self.0.iter().filter(|stamp| stamp.writer() == writer).count() as u32
    }

    /// Acknowledgements must come in the order of each writer's steps, without a gap.
    pub(crate) fn check(&self, plan: &Plan, round: u32) -> Result<(), String> {
        let mut next = vec![0; plan.writers as usize];
        for stamp in &self.0 {
            let expected = next.get_mut(stamp.writer() as usize);
            match expected {
                Some(expected) if stamp.round() == round && stamp.number() == *expected => *expected += 1,
                _ => return Err(format!("the acknowledgement {stamp:?} makes no sense")),
            }
        }
        Ok(())
    }
}

/// Which write each row is the work of.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    plan: Plan,
    stamps: Vec<Stamp>,
}

/// The part of a round that survived a power cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survived {
    pub(crate) power_commits: u64,
    pub(crate) lost_process_writes: u64,
}

impl Model {
    /// All rows as they were loaded.
    pub(crate) fn loaded(plan: Plan) -> Model {
        Model { plan, stamps: vec![Stamp::LOADED; plan.rows as usize] }
    }

    fn apply(&mut self, step: &Step) {
        for &key in &step.keys {
            self.stamps[key as usize] = step.stamp;
        }
    }

    /// After the process died: everything acknowledged is there, and beyond that only each writer's write in
    /// progress. A write with `Power` that was in progress is there as a whole or not at all. The found state
    /// becomes the expected one.
    pub(crate) fn check_reattached(
        &mut self,
        round: u32,
        acks: &Acks,
        found: &[Stamp],
    ) -> Result<(), String> {
        for stamp in &acks.0 {
            self.apply(&self.plan.step(*stamp));
        }
        let mut may_be = vec![None; self.stamps.len()];
        for writer in 0..self.plan.writers {
            let step = self.plan.step(Stamp::new(round, writer, acks.of(writer)));
            let there = step.keys.iter().filter(|&&key| found[key as usize] == step.stamp).count();
            if step.durability == Durability::Power && there != 0 && there != step.keys.len() {
                return Err(format!("{there} of {} rows of a commit with Power are there", step.keys.len()));
            }
            for &key in &step.keys {
                may_be[key as usize] = Some(step.stamp);
            }
        }
        for (key, (&expected, &stamp)) in self.stamps.iter().zip(found).enumerate() {
            if stamp != expected && may_be[key] != Some(stamp) {
                return Err(format!(
                    "row {key} holds write {stamp:?}, but {expected:?} was acknowledged last"
                ));
            }
        }
        self.stamps.copy_from_slice(found);
        Ok(())
    }

    /// After the image was lost: of each writer a prefix of its steps is there, each as a whole, with every commit
    /// with `Power` that was acknowledged; and together they are a prefix of the order of all writes.
    pub(crate) fn check_rebuilt(
        &mut self,
        round: u32,
        acks: &Acks,
        found: &[Stamp],
    ) -> Result<Survived, String> {
        let mut survived = Survived::default();
        let mut prefixes = Vec::new();
        for writer in 0..self.plan.writers {
            let of_writer = |stamp: &&Stamp| stamp.round() == round && stamp.writer() == writer;
            let newest = found.iter().filter(of_writer).map(|stamp| stamp.number()).max();
            let there = newest.map_or(0, |newest| newest + 1);
            let acknowledged = acks.of(writer);
            if there > acknowledged + 1 {
                return Err(format!(
                    "writer {writer} began {} writes, but {there} are there",
                    acknowledged + 1
                ));
            }
            for number in 0..acknowledged.max(there) {
                let step = self.plan.step(Stamp::new(round, writer, number));
                match (number < there, step.durability) {
                    (true, durability) => {
                        self.apply(&step);
                        survived.power_commits += u64::from(durability == Durability::Power);
                    }
                    (false, Durability::Process) => survived.lost_process_writes += 1,
                    (false, Durability::Power) => {
                        return Err(format!("writer {writer}'s commit {number} with Power is gone"));
                    }
                }
            }
            prefixes.push(there);
        }
        for (key, (expected, stamp)) in self.stamps.iter().zip(found).enumerate() {
            if stamp != expected {
                return Err(format!(
                    "row {key} holds write {stamp:?} instead of {expected:?}: no prefix is whole"
                ));
            }
        }
        self.check_order(acks, &prefixes)?;
        Ok(survived)
    }

    /// A write that a writer began after the acknowledgement of its last one comes after everything acknowledged by
    /// then. So if it is there, all of that must be.
    fn check_order(&self, acks: &Acks, prefixes: &[u32]) -> Result<(), String> {
        for (writer, &there) in prefixes.iter().enumerate() {
            let Some(before) = there.checked_sub(2) else { continue };
            let told = |stamp: &Stamp| stamp.writer() as usize == writer && stamp.number() == before;
            let Some(told) = acks.0.iter().position(told) else { continue };
            if let Some(gone) =
                acks.0[..=told].iter().find(|ack| ack.number() >= prefixes[ack.writer() as usize])
            {
                return Err(format!(
                    "writer {writer}'s write {} is there, but {gone:?} before it is gone",
                    there - 1
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 1, rows: 4000, writers: 2 };

    /// Steps 0 to `counts[w]` of each writer, acknowledged turn by turn.
    fn acks(counts: [u32; 2]) -> Acks {
        let turns = (0..counts[0].max(counts[1])).flat_map(|number| [(0, number), (1, number)]);
        let done = turns.filter(|&(writer, number): &(u32, u32)| number < counts[writer as usize]);
        Acks(done.map(|(writer, number)| Stamp::new(1, writer, number)).collect())
    }

    fn state(counts: [u32; 2]) -> Vec<Stamp> {
        let mut model = Model::loaded(PLAN);
        acks(counts).0.iter().for_each(|stamp| model.apply(&PLAN.step(*stamp)));
        model.stamps
    }

    fn first(durability: Durability, writer: u32) -> u32 {
        (1..).find(|&n| PLAN.step(Stamp::new(1, writer, n)).durability == durability).expect("one")
    }

    #[test]
    fn everything_acknowledged_must_be_there_after_a_kill() {
        let reattached =
            |counts, found: &[Stamp]| Model::loaded(PLAN).check_reattached(1, &acks(counts), found);
        assert_eq!(reattached([5, 9], &state([5, 9])), Ok(()));
        assert_eq!(reattached([5, 9], &state([6, 10])), Ok(()), "both had one in hand");
        assert!(reattached([5, 9], &state([5, 8])).is_err(), "one is missing");
        assert!(reattached([5, 9], &state([7, 9])).is_err(), "one that nobody began");
    }

    #[test]
    fn a_write_in_hand_may_be_half_there_only_with_process() {
        let half = |durability| {
            // A step with more than one row, half of which has arrived.
            let step = (0..).map(|n| PLAN.step(Stamp::new(1, 0, n)));
            let step = step.filter(|step| step.durability == durability).find(|step| step.keys.len() > 1);
            let step = step.expect("one");
            let counts = [step.stamp.number(), 0];
            let mut found = state(counts);
            found[*step.keys.first().expect("a row") as usize] = step.stamp;
            Model::loaded(PLAN).check_reattached(1, &acks(counts), &found)
        };
        assert_eq!(half(Durability::Process), Ok(()));
        assert!(half(Durability::Power).is_err());
    }

    #[test]
    fn a_power_cut_may_take_the_newest_process_writes_only() {
        let rebuilt = |told, there| Model::loaded(PLAN).check_rebuilt(1, &acks(told), &state(there));
        let survived = rebuilt([6, 6], [6, 6]).expect("all is there");
        assert_eq!(survived.lost_process_writes, 0);
        let process = first(Durability::Process, 0);
        let others = acks([process + 1, process]);
        let survived = Model::loaded(PLAN).check_rebuilt(1, &others, &state([process, process]));
        assert_eq!(survived.expect("the newest may go").lost_process_writes, 1);
        let power = first(Durability::Power, 0);
        assert!(rebuilt([power + 1, power + 1], [power, power + 1]).is_err(), "a commit with Power is gone");
        let mut torn = state([6, 6]);
        *torn.iter_mut().find(|stamp| **stamp != Stamp::LOADED).expect("a written row") = Stamp::LOADED;
        assert!(Model::loaded(PLAN).check_rebuilt(1, &acks([6, 6]), &torn).is_err());
    }

    #[test]
    fn what_is_left_must_be_a_prefix_across_writers() {
        let model = Model::loaded(PLAN);
        assert_eq!(model.check_order(&acks([8, 8]), &[8, 8]), Ok(()));
        assert_eq!(
            model.check_order(&acks([8, 8]), &[8, 7]),
            Ok(()),
            "nobody can tell which of the two came first"
        );
        assert!(model.check_order(&acks([8, 8]), &[8, 5]).is_err());
        assert!(model.check_order(&acks([8, 8]), &[3, 8]).is_err());
    }

    #[test]
    fn acknowledgements_come_in_order() {
        assert_eq!(acks([3, 5]).check(&PLAN, 1), Ok(()));
        assert!(acks([3, 5]).check(&PLAN, 2).is_err());
        assert!(Acks(vec![Stamp::new(1, 0, 1)]).check(&PLAN, 1).is_err());
        assert!(Acks(vec![Stamp::new(1, 7, 0)]).check(&PLAN, 1).is_err());
    }
}
