//! Steps of batches that are too large for the memory of a test.

use warpkeep_device::{Device, DevicePtr, Grid, Mode};

use super::{DeviceGraph, Totals};
use crate::GraphOptions;
use crate::graph::kernels::{ADDS, CONTROL_WORDS, GraphRef, MEDIUMS, SEGMENT_SUMS, Update};

/// Vertices with long lists, each of which gets one more edge.
const HUBS: usize = 256;
const DEGREE: u32 = 1 << 29;

#[test]
fn sums_of_slots_are_exact_beyond_32_bits() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let graph = DeviceGraph::new(&device, &GraphOptions::default()).unwrap();
    let stream = device.stream().unwrap();
    let records = device.upload(&[[0, DEGREE, DEGREE, 0]; HUBS]).unwrap();
    let sources: Vec<u32> = (0..HUBS as u32).collect();
    let (sources, effects) = (device.upload(&sources).unwrap(), device.upload(&[ADDS; HUBS]).unwrap());
    let column = || device.upload(&[0_u32; HUBS + 1]).unwrap();
    let (added, removed, classes, owners) = (column(), column(), column(), column());
    let (firsts, needs, moves) = (column(), column(), column());
    let sums = device.allocate(8 * 4 * SEGMENT_SUMS as usize).unwrap();
    let control = device.allocate_zeroed(8 * CONTROL_WORDS).unwrap();
    let null = DevicePtr::NULL;
    let params = Update {
        graph: GraphRef {
            records: records.ptr(),
            targets: null,
            weights: null,
            ids: null,
            times: null,
            vertices: HUBS as u64,
        },
        sorted: null,
        numbers: null,
        begins: null,
        runs: HUBS as u64,
        runs_at: null,
        entries: HUBS as u64,
        codes: null,
        weights: null,
        ids: null,
        times: null,
        statuses: null,
        sources: sources.ptr(),
        targets: null,
        places: null,
        winners: null,
        effects: effects.ptr(),
        added: added.ptr(),
        removed: removed.ptr(),
        firsts: firsts.ptr(),
        needs: needs.ptr(),
        moves: moves.ptr(),
        classes: classes.ptr(),
        owners: owners.ptr(),
        listed: null,
        sums: sums.ptr(),
        stride: 4,
        segments: 0,
        mediums: 0,
        moved: 0,
        control: control.ptr(),
        pool_end: 0,
        frozen: 0,
        touched: null,
        code: 0,
        bits: 32,
        mirrored: 0,
        drops_loops: 0,
    };
    let check = || {
        let totals = Totals::read(&control, &stream).unwrap();
        let (hubs, degree) = (HUBS as u64, u64::from(DEGREE));
        assert_eq!((totals.segments, totals.longs, totals.mediums), (hubs, hubs, 0));
        assert_eq!((totals.moved, totals.dead), (hubs * degree, hubs * degree));
        assert_eq!(totals.needed, hubs * (degree / 2 * 3));
    };
    // Each thread adds up many segments.
    let grid = Grid { blocks: 1, threads: 32, shared_bytes: 0 };
    // SAFETY: the columns have an element for each run and one more, and no list is read.
    unsafe { graph.kernels.plan.launch(grid, &params, &stream).unwrap() };
    check();
    // As a large batch does, with the same segments.
    control.fill_range(8 * MEDIUMS, 2 * 8, 0).unwrap();
    let sum = Grid { blocks: SEGMENT_SUMS, threads: 32, shared_bytes: 0 };
    // SAFETY: as above; each column of sums has a word for each block.
    unsafe {
        graph.launch(&graph.kernels.measure, HUBS as u64 + 1, &params, &stream).unwrap();
        graph.kernels.sum_segments.launch(sum, &params, &stream).unwrap();
    }
    check();
}
