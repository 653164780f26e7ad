//! A device that is lost while a graph is asked, sampled or worked by an algorithm.

use warpkeep_containers::{
    ContainerError, DeviceSample, DeviceSeeds, Edge, Graph, GraphOptions, SampleOptions,
};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::report;

/// Losses of each call.
const POINTS: u64 = 4;

type Call = (&'static str, fn(&Device, &Graph) -> Result<(), ContainerError>);

fn sample_on(device: &Device, graph: &Graph) -> Result<(), ContainerError> {
    let (stream, vertices) = (device.stream()?, device.upload(&[0_u32, 1, 2])?);
    let seeds = DeviceSeeds { vertices: &vertices, times: None, count: 3 };
    graph.sample_on(seeds, &SampleOptions::new(&[3, 2]), &mut DeviceSample::new(device)?, &stream)
}

const CALLS: [Call; 12] = [
    ("edges_exist", |_, graph| graph.edges_exist(&[(0, 1), (9, 9)]).map(drop)),
    ("find_edges", |_, graph| graph.find_edges(&[(0, 1), (9, 9)]).map(drop)),
    ("degrees", |_, graph| graph.degrees(&[0, 1, 2]).map(drop)),
    ("neighbours", |_, graph| graph.neighbours(&[3, 1]).map(drop)),
    ("csr", |_, graph| graph.csr().map(drop)),
    ("sample", |_, graph| graph.sample(&[0, 1, 2], &SampleOptions::new(&[3, 2])).map(drop)),
    ("sample_at", |_, graph| {
        graph.sample_at(&[0, 1], &[9, 9], &SampleOptions::new(&[40, 2]).weighted()).map(drop)
    }),
    ("sample_on", sample_on),
    ("bfs", |_, graph| graph.bfs(&[0]).map(drop)),
    ("triangles", |_, graph| graph.triangles().map(drop)),
    ("core_numbers", |_, graph| graph.core_numbers().map(drop)),
    ("delete_vertices", |_, graph| graph.delete_vertices(&[3, 4]).map(drop)),
];

/// Runs a call on a graph whose device is lost after `after` steps of it, or never; gives the simulator's step at
/// the end, and whether the call failed.
fn run(call: &Call, after: Option<u64>, steps_before: u64) -> (u64, bool) {
    let device = Device::simulated(Mode::seeded(3)).unwrap();
    let graph = Graph::new(&device, &GraphOptions::default().undirected().weights().times()).unwrap();
    let edges: Vec<Edge> = (0..60).map(|i| Edge::new(i % 7, i % 11 + 1).time(i64::from(i % 5))).collect();
    graph.insert_edges(&edges).unwrap();
    device.simulator().unwrap().crash_at(after.map(|after| steps_before + after));
    let lost = |error: &ContainerError| error.device().is_some_and(DeviceError::is_lost);
    let failed = match (call.1)(&device, &graph) {
        Ok(()) => false,
        Err(error) => {
            assert!(after.is_some() && lost(&error), "{}: {error}", call.0);
            // Every later call says so as well.
            assert!(CALLS.iter().all(|call| call.1(&device, &graph).is_err_and(|error| lost(&error))));
            assert!(graph.insert_edges(&edges).is_err_and(|error| lost(&error)), "{}", call.0);
            true
        }
    };
    (device.last_run().map_or(0, |run| run.now), failed)
}

#[test]
fn a_lost_device_is_an_error_of_every_question() {
    let before = run(&("nothing", |_, _| Ok(())), None, 0).0;
    let mut lost = 0;
    for call in &CALLS {
        let (end, failed) = run(call, None, before);
        assert!(!failed && end > before, "{} ran no kernel", call.0);
        for point in 0..POINTS {
            let after = 1 + (end - before - 1) * point / POINTS;
            assert!(run(call, Some(after), before).1, "{} after {after} steps", call.0);
            lost += 1;
        }
    }
    report(&format!("questions to a graph: {lost} devices lost"));
}
