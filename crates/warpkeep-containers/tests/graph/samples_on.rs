//! Samples, degrees and existence of edges in device memory, beside the CPU form.

use warpkeep_containers::{
    ContainerError, DeviceNeighbours, DeviceSample, DeviceSeeds, Edge, Graph, GraphOptions, GraphSample,
    NO_VERTEX, SampleOptions,
};
use warpkeep_device::{Buffer, Device};
use warpkeep_suites::device::Dice;

use crate::samples::{both, chi_square, kinds, options};

tests_of! {
    samples_of_several_hops_are_those_of_the_cpu_form,
    all_choices_of_one_hop_are_those_of_the_cpu_form,
    samples_in_device_memory_have_the_right_frequencies,
    places_that_are_drawn_again_are_those_of_the_cpu_form,
    a_sample_can_be_used_for_another_graph,
    degrees_and_edges_are_found_in_device_memory,
    snapshots_answer_in_device_memory_as_they_were,
    seeds_without_times_are_refused_where_options_count_from_them,
}

/// Vertices with lists of all lengths from 0 to 99, a long one, and targets that many of them share.
pub(crate) fn uneven() -> Vec<Edge> {
    let mut dice = Dice::new(9);
    let mut any = |source, target: u32| {
        let (weight, time) = (dice.below(9) as f32 / 2.0 - 0.5, dice.below(60) as i64);
        Edge::new(source, target).weight(weight).time(time).id(dice.below(1 << 40))
    };
    let mut edges: Vec<Edge> = Vec::new();
    for source in 0..100 {
        edges.extend((0..source).map(|at| any(source, (source * 7 + at * at + at) % 350)));
    }
    edges.extend((0..3000).map(|target| any(200, target)));
    edges
}

/// What `sample_on` gives, into a sample that may have been used before.
pub(crate) fn sample_on(
    device: &Device,
    graph: &Graph,
    seeds: (&[u32], Option<&[i64]>),
    options: &SampleOptions,
    sample: &mut DeviceSample,
) -> Result<GraphSample, ContainerError> {
    let stream = device.stream()?;
    let (vertices, times) = (device.upload(seeds.0)?, seeds.1.map(|times| device.upload(times)).transpose()?);
    let given = DeviceSeeds { vertices: &vertices, times: times.as_ref(), count: seeds.0.len() };
    graph.sample_on(given, options, sample, &stream)?;
    Ok(sample.to_host(&stream)?)
}

/// What the CPU form gives.
pub(crate) fn right(graph: &Graph, seeds: (&[u32], Option<&[i64]>), options: &SampleOptions) -> GraphSample {
    match seeds.1 {
        None => graph.sample(seeds.0, options).unwrap(),
        Some(times) => graph.sample_at(seeds.0, times, options).unwrap(),
    }
}

/// One hop from different seeds to places of the caller, which is what the CPU form chooses.
fn check_neighbours(
    device: &Device,
    graphs: &[Graph; 2],
    seeds: (&[u32], Option<&[i64]>),
    (fanout, options): (usize, &SampleOptions),
) {
    let count = seeds.0.len();
    let (vertices, times_of) =
        (device.upload(seeds.0).unwrap(), seeds.1.map(|times| device.upload(times).unwrap()));
    let given = DeviceSeeds { vertices: &vertices, times: times_of.as_ref(), count };
    let column = |bytes: usize| device.allocate(bytes).unwrap();
    let (mut targets, mut counts) = (column(4 * count * fanout), column(4 * count));
    let (mut ids, mut times) = (column(8 * count * fanout), column(8 * count * fanout));
    let stream = device.stream().unwrap();
    let neighbours = DeviceNeighbours {
        targets: &mut targets,
        counts: Some(&mut counts),
        ids: Some(&mut ids),
        times: Some(&mut times),
    };
    graphs[0].sample_neighbours_on(given, options, neighbours, &stream).unwrap();

    let sample = right(&graphs[1], seeds, options);
    let mut expected = vec![(NO_VERTEX, 0, 0); count * fanout];
    let mut lengths = vec![0_u32; count];
    for at in 0..sample.rows.len() {
        let row = sample.rows[at] as usize;
        let target = sample.vertices[sample.cols[at] as usize];
        expected[row * fanout + lengths[row] as usize] = (target, sample.ids[at], sample.times[at]);
        lengths[row] += 1;
    }
    assert_eq!(counts.to_vec::<u32>().unwrap(), lengths);
    let (ids, times) = (ids.to_vec::<u64>().unwrap(), times.to_vec::<i64>().unwrap());
    let found = targets.to_vec::<u32>().unwrap().into_iter().zip(ids).zip(times);
    assert!(found.map(|((target, id), time)| (target, id, time)).eq(expected), "{fanout} of {options:?}");

    // Without the columns that can be left out.
    let mut alone = column(4 * count * fanout);
    let neighbours = DeviceNeighbours { targets: &mut alone, counts: None, ids: None, times: None };
    graphs[0].sample_neighbours_on(given, options, neighbours, &stream).unwrap();
    assert_eq!(alone.to_vec::<u32>().unwrap(), targets.to_vec::<u32>().unwrap());
}

pub(crate) fn all_choices_of_one_hop_are_those_of_the_cpu_form(device: &Device) {
    let graphs = both(device, &uneven());
    // Also vertices that there are not. The first hop has them in this order.
    let mut seeds: Vec<u32> = (0..110).chain([5000, NO_VERTEX, 200, 150]).collect();
    seeds.rotate_left(37);
    let times: Vec<i64> = (0..seeds.len() as i64).map(|at| at * 13 % 70 - 3).collect();
    for fanout in [1, 7, 16, 31, 32, 33, 70] {
        for kind in kinds(&[fanout], u64::from(fanout)) {
            check_neighbours(device, &graphs, (&seeds, None), (fanout as usize, &kind));
            let kind = kind.before().window(20);
            check_neighbours(device, &graphs, (&seeds, Some(&times)), (fanout as usize, &kind));
        }
    }
}

pub(crate) fn samples_in_device_memory_have_the_right_frequencies(device: &Device) {
    const DEGREE: usize = 20;
    let graph = Graph::new(device, &options()).unwrap();
    let seeds: Vec<u32> = (1000..4000).collect();
    let edges =
        |source: u32| (0..DEGREE as u32).map(move |t| Edge::new(source, t).weight((1 + t % 4) as f32));
    graph.insert_edges(&seeds.iter().flat_map(|source| edges(*source)).collect::<Vec<Edge>>()).unwrap();
    let mut sample = DeviceSample::new(device).unwrap();
    for (number, fanout) in [(0, 5), (1, 5), (1, 40), (2, 1), (3, 5), (3, 40)] {
        let kind = &kinds(&[fanout], 31)[number];
        let found = sample_on(device, &graph, (&seeds, None), kind, &mut sample).unwrap();
        let mut counts = [0_u64; DEGREE];
        found.cols.iter().for_each(|col| counts[found.vertices[*col as usize] as usize] += 1);
        let all: u64 = counts.iter().sum();
        assert_eq!(all, u64::from(fanout) * seeds.len() as u64);
        let share = |t: usize| if number < 2 { 1.0 / 20.0 } else { (1 + t % 4) as f64 / 50.0 };
        let expected: Vec<f64> = (0..DEGREE).map(|target| all as f64 * share(target)).collect();
        let statistic = chi_square(&counts, &expected);
        // 19 degrees of freedom: 52 is exceeded with a probability below 0.0001.
        assert!(statistic < 52.0, "{statistic} for {counts:?}, choice {number} of {fanout}");
    }
}

pub(crate) fn places_that_are_drawn_again_are_those_of_the_cpu_form(device: &Device) {
    // Lists that are hardly longer than the fan-out: most turns find what they drew taken, also by a turn that itself took the last candidate.
    let edges = (0..40).flat_map(|v| (0..=31 + v % 3).map(move |at| Edge::new(v, 100 + at)));
    let graphs = both(device, &edges.collect::<Vec<Edge>>());
    let seeds: Vec<u32> = (0..40).collect();
    for (fanout, seed) in [(30, 1), (31, 2), (32, 3), (32, 4), (15, 5), (10, 6)] {
        check_neighbours(
            device,
            &graphs,
            (&seeds, None),
            (fanout, &SampleOptions::new(&[fanout as u32]).seed(seed)),
        );
    }
}

pub(crate) fn a_sample_can_be_used_for_another_graph(device: &Device) {
    let graphs = both(device, &uneven());
    let plain = Graph::new(device, &GraphOptions::default()).unwrap();
    plain.insert_edges(&[Edge::new(1, 2)]).unwrap();
    let mut sample = DeviceSample::new(device).unwrap();
    let kind = SampleOptions::new(&[2, 2]);
    sample_on(device, &graphs[0], (&[90, 91], Some(&[9, 9])), &kind, &mut sample).unwrap();
    assert!(sample.batch().is_some() && sample.ids().is_some() && sample.times().is_some());
    let made = sample_on(device, &plain, (&[1], None), &kind, &mut sample).unwrap();
    assert_eq!((made.vertices, made.rows, made.cols), (vec![1, 2], vec![0], vec![1]));
    assert_eq!((sample.vertices_per_hop(), sample.edges_per_hop()), (&[1, 1, 0][..], &[1, 0][..]));
    assert!(sample.batch().is_none() && sample.ids().is_none() && sample.times().is_none());
}

pub(crate) fn degrees_and_edges_are_found_in_device_memory(device: &Device) {
    let [graph, cpu] = both(device, &uneven());
    let stream = device.stream().unwrap();
    let asked: Vec<(u32, u32)> = (0..700)
        .map(|at| (at % 110, at * 3 % 350))
        .chain([(NO_VERTEX, 0), (200, 2999), (200, 3000)])
        .collect();
    let count = asked.len();
    let column =
        |of: fn(&(u32, u32)) -> u32| device.upload(&asked.iter().map(of).collect::<Vec<u32>>()).unwrap();
    let (sources, targets) = (column(|edge| edge.0), column(|edge| edge.1));
    let mut found: Buffer = device.allocate(count).unwrap();
    graph.edges_exist_on(&sources, &targets, count, &mut found, &stream).unwrap();
    let found: Vec<bool> = found.to_vec::<u8>().unwrap().into_iter().map(|byte| byte == 1).collect();
    assert_eq!(found, cpu.edges_exist(&asked).unwrap());
    assert!(found.contains(&true) && found.contains(&false));

    // The degree behind the last one is not theirs.
    let mut degrees = device.upload(&vec![77_u32; count + 1]).unwrap();
    graph.degrees_on(&sources, count, &mut degrees, &stream).unwrap();
    let vertices: Vec<u32> = asked.iter().map(|edge| edge.0).collect();
    let mut expected = cpu.degrees(&vertices).unwrap();
    expected.push(77);
    assert_eq!(degrees.to_vec::<u32>().unwrap(), expected);

    let mut short = device.allocate(count - 1).unwrap();
    assert!(graph.edges_exist_on(&sources, &targets, count, &mut short, &stream).is_err());
    assert!(graph.degrees_on(&sources, count, &mut short, &stream).is_err());
    assert!(graph.degrees_on(&sources, count + 1, &mut degrees, &stream).is_err());
    let error = cpu.degrees_on(&sources, count, &mut degrees, &stream).unwrap_err();
    assert!(matches!(error, ContainerError::OnCpu { .. }), "{error}");
    assert!(cpu.edges_exist_on(&sources, &targets, 1, &mut short, &stream).is_err());
}

pub(crate) fn snapshots_answer_in_device_memory_as_they_were(device: &Device) {
    let [graph, before] = both(device, &uneven());
    let (snapshot, cpu) = (graph.snapshot().unwrap(), before.snapshot().unwrap());
    // Lists move, become shorter and end; vertices are new.
    let more: Vec<Edge> = (0..120).flat_map(|v| (0..40).map(move |at| Edge::new(v, 4000 + v + at))).collect();
    graph.insert_edges(&more).unwrap();
    graph
        .delete_edges(&uneven().iter().step_by(3).map(|e| (e.source, e.target)).collect::<Vec<_>>())
        .unwrap();
    graph.delete_vertices(&[7, 200]).unwrap();
    graph.compact().unwrap();

    let asked: Vec<u32> = (0..120).chain([200, 4100]).collect();
    let (count, stream) = (asked.len(), device.stream().unwrap());
    let (vertices, times_of) = (device.upload(&asked).unwrap(), device.upload(&vec![40_i64; count]).unwrap());
    let mut sample = DeviceSample::new(device).unwrap();
    for fanouts in [[5, 4], [40, 2]] {
        for kind in kinds(&fanouts, 6) {
            let seeds = DeviceSeeds { vertices: &vertices, times: None, count };
            snapshot.sample_on(seeds, &kind, &mut sample, &stream).unwrap();
            let right = cpu.sample(&asked, &kind).unwrap();
            assert_eq!(sample.to_host(&stream).unwrap(), right);
            assert_eq!(snapshot.sample(&asked, &kind).unwrap(), right);
            assert_ne!(graph.sample(&asked, &kind).unwrap(), right);
            let seeds = DeviceSeeds { times: Some(&times_of), ..seeds };
            snapshot.sample_on(seeds, &kind, &mut sample, &stream).unwrap();
            let right = cpu.sample_at(&asked, &vec![40; count], &kind).unwrap();
            assert_eq!(sample.to_host(&stream).unwrap(), right);
            assert_eq!(snapshot.sample_at(&asked, &vec![40; count], &kind).unwrap(), right);
        }
    }

    // No vertex up to 99 has as many edges as places: all of its list is there.
    let mut targets = device.allocate(4 * count * 100).unwrap();
    let neighbours = DeviceNeighbours { targets: &mut targets, counts: None, ids: None, times: None };
    let seeds = DeviceSeeds { vertices: &vertices, times: None, count: 100 };
    snapshot.sample_neighbours_on(seeds, &SampleOptions::new(&[100]), neighbours, &stream).unwrap();
    let lists = targets.to_vec::<u32>().unwrap();
    for (place, vertex) in lists.chunks_exact(100).zip(&asked[..100]) {
        let list = before.neighbours(&[*vertex]).unwrap().targets;
        assert_eq!(place[..list.len()], list);
        assert!(place[list.len()..].iter().all(|target| *target == NO_VERTEX));
    }

    let mut degrees = device.allocate(4 * count).unwrap();
    snapshot.degrees_on(&vertices, count, &mut degrees, &stream).unwrap();
    assert_eq!(degrees.to_vec::<u32>().unwrap(), before.degrees(&asked).unwrap());
    let edges: Vec<(u32, u32)> = uneven().iter().chain(&more).map(|e| (e.source, e.target)).collect();
    let column =
        |of: fn(&(u32, u32)) -> u32| device.upload(&edges.iter().map(of).collect::<Vec<u32>>()).unwrap();
    let mut found = device.allocate(edges.len()).unwrap();
    snapshot.edges_exist_on(&column(|e| e.0), &column(|e| e.1), edges.len(), &mut found, &stream).unwrap();
    let found: Vec<bool> = found.to_vec::<u8>().unwrap().into_iter().map(|byte| byte == 1).collect();
    assert_eq!(found, before.edges_exist(&edges).unwrap());
    assert!(cpu.sample_on(seeds, &SampleOptions::new(&[1]), &mut sample, &stream).is_err());
}

pub(crate) fn samples_of_several_hops_are_those_of_the_cpu_form(device: &Device) {
    let graphs = both(device, &uneven());
    let mut dice = Dice::new(41);
    let mut sample = DeviceSample::new(device).unwrap();
    for (number, fanouts) in [&[8, 3][..], &[31, 33], &[64, 2, 2], &[70, 0, 5], &[]].into_iter().enumerate() {
        let (seeds, times): (Vec<u32>, Vec<i64>) =
            (0..50).map(|_| (dice.below(120) as u32, dice.below(63) as i64 - 1)).unzip();
        for kind in kinds(fanouts, number as u64) {
            for (times, kind) in [(None, kind.clone()), (Some(&times[..]), kind.before().window(25))] {
                let made = sample_on(device, &graphs[0], (&seeds, times), &kind, &mut sample).unwrap();
                assert_eq!(made, right(&graphs[1], (&seeds, times), &kind));
            }
        }
    }
}

pub(crate) fn seeds_without_times_are_refused_where_options_count_from_them(device: &Device) {
    let graphs = both(device, &[Edge::new(1, 2).time(5), Edge::new(1, 3).time(9)]);
    let stream = device.stream().unwrap();
    let mut sample = DeviceSample::new(device).unwrap();
    let new = || SampleOptions::new(&[2]);
    for (kind, option, count) in [
        (new().before(), "before", 0),
        (new().window(0), "window", 1),
        (new().last().window(u64::MAX), "window", 1),
    ] {
        let check = |call: &str, error: ContainerError| {
            let ContainerError::NoSeedTimes { call: of, option: found } = &error else { panic!("{error}") };
            assert_eq!((*of, *found), (call, option));
            assert!(error.to_string().contains("sample_at"), "{error}");
        };
        for graph in &graphs {
            check("sample", graph.sample(&[1], &kind).unwrap_err());
            check("sample", graph.snapshot().unwrap().sample(&[1], &kind).unwrap_err());
            // With times they count.
            assert_eq!(graph.sample_at(&[1], &[5], &kind).unwrap().rows.len(), count);
        }
        let error = sample_on(device, &graphs[0], (&[1], None), &kind, &mut sample).unwrap_err();
        check("sample_on", error);
        let (seeds, times) = (device.upload(&[1_u32]).unwrap(), device.upload(&[5_i64]).unwrap());
        let mut targets = device.allocate(4 * 2).unwrap();
        let mut neighbours = |times| {
            let given = DeviceSeeds { vertices: &seeds, times, count: 1 };
            let into = DeviceNeighbours { targets: &mut targets, counts: None, ids: None, times: None };
            graphs[0].sample_neighbours_on(given, &kind, into, &stream)
        };
        check("sample_neighbours_on", neighbours(None).unwrap_err());
        neighbours(Some(&times)).unwrap();
    }
}
