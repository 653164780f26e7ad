//! Random histories: whatever is done in whatever order, the log comes back as a prefix that holds all promises.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_core::Durability;

use crate::history::{History, create, recover, scan};
use crate::mem_disk::{Dice, MemDisk};

#[derive(Clone, Debug)]
enum Step {
    Append { most: usize, power: bool },
    Flush,
    Checkpoint,
    Crash,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (prop_oneof![Just(60usize), Just(900), Just(5000), Just(40_000)], any::<bool>())
            .prop_map(|(most, power)| Step::Append { most, power }),
        4 => Just(Step::Flush),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Crash),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn histories_come_back(steps in prop::collection::vec(step(), 1..60), seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        let disk = MemDisk::default();
        let mut history = History::default();
        let mut log = create(&disk);
        let mut epoch = 1;
        for step in steps {
            match step {
                Step::Append { most, power } => {
                    let durability = if power { Durability::Power } else { Durability::Process };
                    let lsn = history.append(&log, &mut dice, most, durability).unwrap();
                    if power {
                        log.wait_durable(lsn).unwrap();
                        history.acknowledged = lsn;
                    }
                }
                Step::Flush => {
                    log.flush().unwrap();
                    history.acknowledged = history.last();
                }
                Step::Checkpoint => {
                    let info = log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
                    prop_assert_eq!(info.end, log.durable_lsn());
                    history.acknowledged = history.last();
                }
                Step::Crash | Step::Close => {
                    let clean = matches!(step, Step::Close);
                    if clean {
                        history.acknowledged = history.last();
                        log.close().unwrap();
                    } else {
                        drop(log);
                    }
                    let recovery = recover(&disk).unwrap();
                    prop_assert_eq!(recovery.closed_cleanly(), clean);
                    prop_assert_eq!(recovery.report().torn_tail, None);
                    history.check(&recovery).map_err(TestCaseError::fail)?;
                    epoch += 1 + dice.roll() % 3;
                    log = recovery.start(epoch, false).unwrap();
                }
            }
        }
        drop(log);
        history.check(&recover(&disk).unwrap()).map_err(TestCaseError::fail)?;
    }
}
