//! Random samples in device memory, in all schedules, with short memory, and what is refused.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{
    ContainerError, DeviceNeighbours, DeviceSample, DeviceSeeds, Edge, Graph, GraphOptions, SampleOptions,
};
use warpkeep_device::{Device, DeviceError, Mode};

use crate::device;
use crate::samples::{both, kinds, options};
use crate::samples_on::{right, sample_on, uneven};

proptest! {
    #![proptest_config(Config { cases: 12, rng_seed: RngSeed::Fixed(8), failure_persistence: None, ..Config::default() })]

    #[test]
    fn samples_in_device_memory_are_those_of_the_cpu_form(
        seeds in prop::collection::vec((0..120_u32, -1..62_i64), 0..60),
        fanouts in prop::collection::vec(prop_oneof![4 => 0..9_u32, 1 => 30..36_u32, 1 => 63..80_u32, 1 => Just(u32::MAX)], 0..4),
        (seed, window) in (any::<u64>(), 0..40_u64),
    ) {
        let device = device();
        let graphs = both(&device, &uneven());
        let (vertices, times): (Vec<u32>, Vec<i64>) = seeds.into_iter().unzip();
        let mut sample = DeviceSample::new(&device).unwrap();
        for kind in kinds(&fanouts, seed) {
            let is_large = fanouts.contains(&u32::MAX);
            for (times, kind) in [(None, kind.clone()), (Some(&times[..]), kind.window(window))] {
                match sample_on(&device, &graphs[0], (&vertices, times), &kind, &mut sample) {
                    Ok(made) => prop_assert_eq!(made, right(&graphs[1], (&vertices, times), &kind)),
                    Err(error) => {
                        // With replacement there would be as many edges as that.
                        prop_assert!(is_large && matches!(error, ContainerError::TooLarge { .. }), "{}", error);
                        let on_cpu = match times {
                            None => graphs[1].sample(&vertices, &kind),
                            Some(times) => graphs[1].sample_at(&vertices, times, &kind),
                        };
                        prop_assert_eq!(on_cpu.unwrap_err().to_string(), error.to_string());
                        prop_assert_eq!((sample.vertex_count(), sample.edge_count()), (0, 0));
                    }
                }
            }
        }
    }
}

#[test]
fn every_schedule_numbers_vertices_alike() {
    let edges: Vec<Edge> = uneven().into_iter().filter(|edge| edge.source < 40).collect();
    let (seeds, times): (Vec<u32>, Vec<i64>) = (0..90).map(|at| (at * 7 % 40, 50)).unzip();
    for schedule in 0..4 {
        let device = Device::simulated(Mode::seeded(schedule)).unwrap();
        let graphs = both(&device, &edges);
        let mut sample = DeviceSample::new(&device).unwrap();
        for times in [None, Some(&times[..])] {
            let kind = SampleOptions::new(&[3, 4]).seed(schedule);
            let made = sample_on(&device, &graphs[0], (&seeds, times), &kind, &mut sample).unwrap();
            assert_eq!(made, right(&graphs[1], (&seeds, times), &kind));
        }
    }
}

#[test]
fn what_cannot_be_sampled_is_an_error() {
    let device = device();
    let graphs = both(&device, &uneven());
    let stream = device.stream().unwrap();
    let mut sample = DeviceSample::new(&device).unwrap();
    let (seeds, mut targets) = (device.upload(&[1_u32, 2]).unwrap(), device.allocate(4 * 2 * 3).unwrap());
    let given = |count| DeviceSeeds { vertices: &seeds, times: None, count };
    let mut neighbours = |graph: &Graph, count, fanouts: &[u32]| {
        let into = DeviceNeighbours { targets: &mut targets, counts: None, ids: None, times: None };
        graph.sample_neighbours_on(given(count), &SampleOptions::new(fanouts), into, &stream)
    };
    neighbours(&graphs[0], 2, &[3]).unwrap();
    neighbours(&graphs[0], 2, &[0]).unwrap();
    for fanouts in [&[][..], &[1, 1]] {
        let error = neighbours(&graphs[0], 2, fanouts).unwrap_err();
        assert!(matches!(error, ContainerError::OneHop { given } if given == fanouts.len()), "{error}");
        assert!(error.to_string().contains("sample_on"), "{error}");
    }
    let short = |error: &ContainerError| matches!(error.device(), Some(DeviceError::OutOfBounds { .. }));
    assert!(short(&neighbours(&graphs[0], 2, &[4]).unwrap_err()));
    assert!(short(&neighbours(&graphs[0], 3, &[1]).unwrap_err()));
    let error = neighbours(&graphs[0], 2, &[u32::MAX]).unwrap_err();
    assert!(matches!(error, ContainerError::TooLarge { .. }), "{error}");
    assert!(matches!(neighbours(&graphs[1], 2, &[1]).unwrap_err(), ContainerError::OnCpu { .. }));

    let kind = SampleOptions::new(&[1]);
    assert!(short(&graphs[0].sample_on(given(3), &kind, &mut sample, &stream).unwrap_err()));
    let timed = DeviceSeeds { times: Some(&seeds), ..given(2) };
    assert!(short(&graphs[0].sample_on(timed, &kind, &mut sample, &stream).unwrap_err()));
    let error = graphs[1].sample_on(given(2), &kind, &mut sample, &stream).unwrap_err();
    assert!(matches!(error, ContainerError::OnCpu { what: "sample_on" }), "{error}");
    let mut elsewhere = DeviceSample::new(&self::device()).unwrap();
    let error = graphs[0].sample_on(given(2), &kind, &mut elsewhere, &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OtherDevice { .. })), "{error}");
    let plain = Graph::new(&device, &GraphOptions::default()).unwrap();
    for kind in [kind.clone().weighted(), kind.clone().last()] {
        let error = plain.sample_on(given(2), &kind, &mut sample, &stream).unwrap_err();
        assert!(matches!(error, ContainerError::NoEdgeData { call: "sample_on", .. }), "{error}");
    }
}

#[test]
fn memory_that_is_short_leaves_an_empty_sample_and_the_graph_as_it_was() {
    let device = device();
    let edges = uneven();
    let cpu = Graph::on_cpu(&options());
    cpu.insert_edges(&edges).unwrap();
    let seeds: Vec<u32> = (0..100).collect();
    let times = vec![50_i64; 100];
    let kind = SampleOptions::new(&[10, 40]).weighted();
    let (mut refused, mut done) = (0, 0);
    for step in 0..40_u64 {
        let small = device.with_budget(2_200_000 + step * 100_000);
        let graph = Graph::new(&small, &options()).unwrap();
        if graph.insert_edges(&edges).is_err() {
            continue;
        }
        let mut sample = DeviceSample::new(&small).unwrap();
        match sample_on(&device, &graph, (&seeds, Some(&times)), &kind, &mut sample) {
            Ok(made) => {
                assert_eq!(made, right(&cpu, (&seeds, Some(&times)), &kind));
                done += 1;
            }
            Err(error) => {
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                assert_eq!((sample.vertex_count(), sample.edge_count()), (0, 0));
                refused += 1;
            }
        }
        drop(sample);
        assert_eq!(graph.edge_count(), cpu.edge_count());
    }
    assert!(refused > 2 && done > 2, "{refused} refused, {done} done");
    assert_eq!(device.allocated(), 0);
}
