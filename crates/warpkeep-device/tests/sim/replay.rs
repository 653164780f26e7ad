//! The same seed gives the same run; simulators side by side do not disturb each other.

use warpkeep_device::sim::{Mode, RunReport, Seeded, Simulator, TraceEvent};

use crate::support::{PublishParams, Words, between, grid, launch, publish_count, publish_for_warp};

fn traced(seed: u64) -> (Vec<TraceEvent>, [RunReport; 2], Vec<u64>) {
    let simulator = Simulator::new(Mode::Seeded(Seeded { trace: true, ..Seeded::new(seed) }))
        .expect("there is a compiler");
    let mut data = Words::new(32).on(&simulator);
    let mut flags = Words::new(2).on(&simulator);
    let mut seen = Words::new(32).on(&simulator);
    let params = PublishParams {
        data: data.address(),
        flags: flags.address(),
        seen: seen.address(),
        between: between::NOTHING,
        rounds: 3,
    };
    let first = launch(&simulator, publish_count, grid(2, 40), &params).expect("it ends");
    let second = launch(&simulator, publish_for_warp, grid(2, 32), &params).expect("it ends");
    let trace = simulator.take_trace();
    assert_eq!(trace.len() as u64 + 2, second.now, "every step but the ends of the launches is in the trace");
    assert!(simulator.take_trace().is_empty(), "and only once");
    (trace, [first, second], data.as_ref().to_vec())
}

#[test]
fn a_seed_replays() {
    for seed in 0..10 {
        let (first, second) = (traced(seed), traced(seed));
        assert_eq!(first.0, second.0, "seed {seed}: the same steps");
        assert_eq!(first.1, second.1, "seed {seed}: the same reports");
        assert_eq!(first.2, second.2, "seed {seed}: the same memory");
    }
}

#[test]
fn another_seed_is_another_run() {
    let mut digests: Vec<u64> = (0..50).map(|seed| traced(seed).1[0].digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 50);
}

#[test]
fn steps_are_counted_over_launches() {
    let (trace, [first, second], _) = traced(4);
    let steps = trace.iter().map(|event| event.step);
    assert!(steps.eq((1..second.now).filter(|step| *step != first.now)), "one after the other");
    assert!(0 < first.now && first.now < second.now);
    assert_eq!(first.workers, 1);
}

#[test]
fn simulators_side_by_side() {
    let alone: Vec<_> = (0..4).map(traced).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..4)
            .map(|seed| scope.spawn(move || (0..5).map(|_| traced(seed)).collect::<Vec<_>>()))
            .collect();
        for (seed, thread) in running.into_iter().enumerate() {
            for run in thread.join().expect("no thread fails") {
                assert_eq!(run, alone[seed], "seed {seed}");
            }
        }
    });
}
