//! Every mistake that is planted is reported, where it is, and the simulator works on.

use warpkeep_device::sim::{Contents, Fast, FaultKind, Grid, Memory, Mode, Seeded, SimError, Simulator};

use crate::support::{
    FaultParams, Kernel, Words, every_function, fault_assertion, fault_barrier, fault_deadlock,
    fault_diverged, fault_lane_gone, fault_misaligned, fault_out_of_bounds, fault_outside_mask,
    fault_read_only, fault_runaway, fault_runaway_collective, fault_shared_index, fault_shared_misaligned,
    fault_shared_uninitialised, fault_two_barriers, fault_two_places, fault_uninitialised, grid, launch,
    line_of,
};

const SOURCE: &str = include_str!("../kernels/faults.h");

fn fast() -> Mode {
    Mode::Fast(Fast { workers: 2, step_limit: 100_000, ..Fast::default() })
}

fn checked() -> Mode {
    Mode::Fast(Fast { workers: 2, step_limit: 100_000, check_memory: true, ..Fast::default() })
}

fn seeded(seed: u64) -> Mode {
    Mode::Seeded(Seeded { step_limit: 5_000, ..Seeded::new(seed) })
}

/// The fault is reported with its place, twice over, and a right kernel runs afterwards.
fn expect(mode: &Mode, kernel: Kernel, grid: Grid, kind: FaultKind, remark: &str, written: Contents) {
    let simulator = Simulator::new(mode.clone()).expect("there is a compiler");
    let mut data = Words::new(64);
    data.register(&simulator, Memory::Device, written);
    let params = FaultParams { data: data.address(), count: 64 };
    for _ in 0..2 {
        let error = launch(&simulator, kernel, grid, &params).expect_err("the mistake is found");
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(fault.kind, kind, "{mode:?}: {error}");
        assert_eq!(fault.kernel, kernel.name);
        assert!(!fault.detail.is_empty(), "{error}");
        assert!(fault.place.file.ends_with("faults.h"), "{error}");
        if !remark.is_empty() {
            assert_eq!(fault.place.line, line_of(SOURCE, &format!("// here: {remark}")), "{error}");
        }
        assert!(fault.block < grid.blocks && fault.warp * 32 + fault.lane < grid.threads.max(32), "{error}");
        let text = error.to_string();
        assert!(text.contains(kernel.name) && text.contains("faults.h:") && text.contains("lane"), "{text}");
    }

    // Fibers that were dropped leave nothing behind.
    assert_eq!(run_every(&simulator), Ok(()), "{mode:?}");
}

fn run_every(simulator: &Simulator) -> Result<(), SimError> {
    let mut arrays: Vec<Words> = (0..7).map(|_| Words::new(64).on(simulator)).collect();
    let params: Vec<u64> = arrays.iter_mut().map(Words::address).collect();
    let params: [u64; 7] = params.try_into().expect("seven arrays");
    launch(simulator, every_function, Grid { blocks: 1, threads: 32, shared_bytes: 512 }, &params).map(|_| ())
}

#[test]
fn every_function_of_the_seam_runs() {
    for mode in [fast(), checked(), seeded(1), seeded(2)] {
        let simulator = Simulator::new(mode).expect("there is a compiler");
        run_every(&simulator).expect("it is right");
    }
}

#[test]
fn lanes_at_different_collectives() {
    for mode in [fast(), checked(), seeded(1), seeded(2)] {
        let written = Contents::Written;
        // Whichever half comes second is the one that is reported.
        expect(&mode, fault_diverged, grid(2, 64), FaultKind::Diverged, "", written);
        expect(&mode, fault_two_places, grid(1, 32), FaultKind::Diverged, "", written);
    }
    expect(&fast(), fault_diverged, grid(1, 32), FaultKind::Diverged, "diverged", Contents::Written);
    expect(&fast(), fault_two_places, grid(1, 32), FaultKind::Diverged, "two places", Contents::Written);
}

#[test]
fn lanes_that_have_returned() {
    for mode in [fast(), checked(), seeded(1), seeded(2)] {
        expect(&mode, fault_lane_gone, grid(1, 64), FaultKind::LaneGone, "lane gone", Contents::Written);
        // A block that is no whole number of warps: lanes 4 to 7 of the tile never were.
        expect(&mode, fault_lane_gone, grid(1, 36), FaultKind::LaneGone, "lane gone", Contents::Written);
    }
}

#[test]
fn lanes_that_wait_for_each_other() {
    for mode in [fast(), checked(), seeded(1), seeded(2)] {
        expect(&mode, fault_deadlock, grid(1, 64), FaultKind::Deadlock, "deadlock", Contents::Written);
    }
}

#[test]
fn barriers_that_not_all_reach() {
    for mode in [fast(), checked(), seeded(1), seeded(2)] {
        expect(&mode, fault_barrier, grid(1, 64), FaultKind::BarrierDiverged, "barrier", Contents::Written);
        expect(&mode, fault_two_barriers, grid(1, 64), FaultKind::BarrierDiverged, "", Contents::Written);
    }
    expect(
        &fast(),
        fault_two_barriers,
        grid(1, 64),
        FaultKind::BarrierDiverged,
        "two barriers",
        Contents::Written,
    );
}

#[test]
fn loops_that_never_end() {
    for mode in [fast(), checked(), seeded(1), seeded(2)] {
        expect(&mode, fault_runaway, grid(3, 64), FaultKind::Runaway, "runaway", Contents::Written);
        expect(
            &mode,
            fault_runaway_collective,
            grid(1, 64),
            FaultKind::Runaway,
            "runaway collective",
            Contents::Written,
        );
    }
}

#[test]
fn assertions() {
    for mode in [fast(), checked(), seeded(1)] {
        expect(
            &mode,
            fault_assertion,
            grid(1, 64),
            FaultKind::Assertion(4242),
            "assertion",
            Contents::Written,
        );
    }
}

#[test]
fn accesses_beyond_a_buffer() {
    for mode in [checked(), seeded(1), seeded(2)] {
        expect(
            &mode,
            fault_out_of_bounds,
            grid(1, 96),
            FaultKind::OutOfBounds,
            "out of bounds",
            Contents::Written,
        );
    }
}

#[test]
fn memory_that_was_never_written() {
    for mode in [checked(), seeded(1), seeded(2)] {
        expect(
            &mode,
            fault_uninitialised,
            grid(1, 32),
            FaultKind::Uninitialised,
            "uninitialised",
            Contents::Unwritten,
        );
        expect(
            &mode,
            fault_shared_uninitialised,
            grid(1, 32),
            FaultKind::Uninitialised,
            "shared uninitialised",
            Contents::Written,
        );
    }
    // What the host says it has written is not reported.
    let simulator = Simulator::new(seeded(3)).expect("there is a compiler");
    let mut data = Words::new(32);
    data.register(&simulator, Memory::Device, Contents::Unwritten);
    simulator.note_written(data.address(), data.bytes()).expect("it is registered");
    let params = FaultParams { data: data.address(), count: 32 };
    launch(&simulator, fault_uninitialised, grid(1, 32), &params).expect("all of it is written");
}

#[test]
fn memory_that_is_gone() {
    for mode in [checked(), seeded(1)] {
        let simulator = Simulator::new(mode).expect("there is a compiler");
        let mut data = Words::new(64);
        data.register(&simulator, Memory::Device, Contents::Written);
        let params = FaultParams { data: data.address(), count: 64 };
        launch(&simulator, fault_out_of_bounds, grid(1, 64), &params).expect("it is there");
        simulator.unregister(data.address()).expect("it is registered");
        assert_eq!(
            simulator.unregister(data.address()),
            Err(SimError::NotRegistered { address: data.address() })
        );
        let error = launch(&simulator, fault_out_of_bounds, grid(1, 64), &params).expect_err("it is gone");
        assert_eq!(error.fault().expect("a fault").kind, FaultKind::UseAfterFree, "{error}");
        // New memory in the same place is new memory.
        data.register(&simulator, Memory::Device, Contents::Written);
        launch(&simulator, fault_out_of_bounds, grid(1, 64), &params).expect("it is there again");
        let (address, bytes) = (data.address() + 8, 8);
        let again = simulator.register(address, bytes, Memory::Host, Contents::Written);
        assert_eq!(again, Err(SimError::BadRegion { address, bytes }));
    }
}

#[test]
fn other_accesses() {
    for mode in [checked(), seeded(1), seeded(2)] {
        expect(&mode, fault_misaligned, grid(1, 32), FaultKind::Misaligned, "misaligned", Contents::Written);
        expect(
            &mode,
            fault_shared_misaligned,
            grid(1, 32),
            FaultKind::Misaligned,
            "shared misaligned",
            Contents::Written,
        );
    }
    for mode in [fast(), checked(), seeded(1)] {
        let kind = FaultKind::OutOfBounds;
        expect(&mode, fault_shared_index, grid(1, 32), kind, "shared index", Contents::Written);
        expect(
            &mode,
            fault_outside_mask,
            grid(1, 32),
            FaultKind::NotInMask,
            "outside mask",
            Contents::Written,
        );
    }
    for seed in 0..8 {
        expect(
            &seeded(seed),
            fault_read_only,
            grid(1, 32),
            FaultKind::ReadOnlyChanged,
            "",
            Contents::Written,
        );
    }
}

#[test]
fn launches_that_cannot_be() {
    let simulator = Simulator::new(fast()).expect("there is a compiler");
    let mut data = Words::new(64);
    let params = FaultParams { data: data.address(), count: 64 };
    for bad in
        [grid(0, 32), grid(1, 0), grid(1, 1025), Grid { blocks: 1, threads: 32, shared_bytes: 1 << 20 }]
    {
        let error = launch(&simulator, fault_assertion, bad, &params).expect_err("no such grid");
        assert!(matches!(error, SimError::BadGrid { .. }), "{error}");
    }
    let error =
        launch(&simulator, fault_assertion, grid(1, 32), &[0u64; 600]).expect_err("too many parameters");
    assert_eq!(error, SimError::ParamsTooLarge { kernel: "fault_assertion".to_owned(), bytes: 4800 });
    let error = launch(&simulator, fault_assertion, grid(1, 32), &[0u64; 3]).expect_err("another struct");
    assert_eq!(error.fault().expect("a fault").kind, FaultKind::BadParams, "{error}");
}
