//! Neighbour sampling: what may be chosen, how often, and that the kernels and the CPU form choose the same.

use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions, GraphSample, SampleOptions};
use warpkeep_device::Device;

tests_of! {
    uniform_and_weighted_samples_have_the_right_frequencies,
    large_fan_outs_choose_every_edge_equally_often,
    weighted_samples_without_replacement_have_the_right_pairs,
    an_empty_vertex_has_an_empty_sample,
    time_ties_are_broken_by_the_smaller_target,
    large_times_are_compared_exactly,
    a_fan_out_of_all_takes_the_list_once,
    with_replacement_a_short_list_has_as_many_edges_as_asked_for,
    both_forms_refuse_what_has_too_many_places,
}

pub(crate) fn options() -> GraphOptions {
    GraphOptions::default().weights().ids().times()
}

/// The same edges on the simulator and on the CPU.
pub(crate) fn both(device: &Device, edges: &[Edge]) -> [Graph; 2] {
    let graphs = [Graph::new(device, &options()).unwrap(), Graph::on_cpu(&options())];
    for graph in &graphs {
        graph.insert_edges(edges).unwrap();
    }
    graphs
}

/// A sample that both forms agree on.
pub(crate) fn agreed(
    graphs: &[Graph; 2],
    seeds: &[u32],
    times: Option<&[i64]>,
    options: &SampleOptions,
) -> GraphSample {
    let [one, two] = graphs.each_ref().map(|graph| match times {
        None => graph.sample(seeds, options).unwrap(),
        Some(times) => graph.sample_at(seeds, times, options).unwrap(),
    });
    assert_eq!(one, two);
    one
}

/// All kinds of choices.
pub(crate) fn kinds(fanouts: &[u32], seed: u64) -> Vec<SampleOptions> {
    let new = || SampleOptions::new(fanouts).seed(seed);
    vec![new(), new().with_replacement(), new().weighted(), new().weighted().with_replacement(), new().last()]
}

/// Pearson's statistic of counts beside their expectations.
pub(crate) fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(count, right)| (*count as f64 - right).powi(2) / right).sum()
}

pub(crate) fn uniform_and_weighted_samples_have_the_right_frequencies(device: &Device) {
    // 20 edges; the statistic has 19 degrees of freedom and exceeds 52 with a probability below 0.0001.
    const DEGREE: usize = 20;
    let weight = |target: u32| (1 + target % 4) as f32;
    let edges: Vec<Edge> = (0..DEGREE as u32).map(|t| Edge::new(100, t).weight(weight(t)).time(7)).collect();
    let graph = Graph::new(device, &options()).unwrap();
    graph.insert_edges(&edges).unwrap();
    let total: f64 = (0..DEGREE as u32).map(|target| f64::from(weight(target))).sum();
    let (seeds, times) = (vec![100; 6000], vec![9; 6000]);
    for (number, kind) in kinds(&[5], 3).into_iter().take(4).enumerate() {
        // Only the first of the weighted ones is in proportion, so one is chosen.
        let kind = if number < 2 { kind } else { kinds(&[1], 3)[number].clone() };
        let sample = graph.sample_at(&seeds, &times, &kind).unwrap();
        let mut counts = [0_u64; DEGREE];
        sample.cols.iter().for_each(|col| counts[sample.vertices[*col as usize] as usize] += 1);
        let all: u64 = counts.iter().sum();
        let share =
            |target: usize| if number < 2 { 1.0 / 20.0 } else { f64::from(weight(target as u32)) / total };
        let expected: Vec<f64> = (0..DEGREE).map(|target| all as f64 * share(target)).collect();
        let statistic = chi_square(&counts, &expected);
        assert!(statistic < 52.0, "{statistic} for {counts:?}, choice {number}");
    }
    // Without times all edges are candidates, and other algorithms choose them. Each seed has a vertex of its own with the same list.
    let edges: Vec<Edge> =
        (0..4000).flat_map(|v| (0..DEGREE as u32).map(move |t| Edge::new(1000 + v, t))).collect();
    graph.insert_edges(&edges).unwrap();
    let seeds: Vec<u32> = (0..4000).map(|v| 1000 + v).collect();
    for kind in kinds(&[5], 11).into_iter().take(2) {
        let sample = graph.sample(&seeds, &kind).unwrap();
        let mut counts = [0_u64; DEGREE];
        sample.cols.iter().for_each(|col| counts[sample.vertices[*col as usize] as usize] += 1);
        assert_eq!(counts.iter().sum::<u64>(), 20_000);
        let statistic = chi_square(&counts, &[1000.0; DEGREE]);
        assert!(statistic < 52.0, "{statistic} for {counts:?}");
    }
}

pub(crate) fn large_fan_outs_choose_every_edge_equally_often(device: &Device) {
    // 99 degrees of freedom: 161 is exceeded with a probability below 0.0001.
    const DEGREE: usize = 100;
    let edges: Vec<Edge> = (0..DEGREE as u32).map(|target| Edge::new(1000, target).time(7)).collect();
    let graph = Graph::new(device, &options()).unwrap();
    graph.insert_edges(&edges).unwrap();
    // With times each seed is sampled for itself.
    let (seeds, times) = (vec![1000; 700], vec![9; 700]);
    for fanout in [33, 40, 65] {
        for (number, kind) in kinds(&[fanout], u64::from(fanout)).into_iter().take(4).enumerate() {
            let sample = graph.sample_at(&seeds, &times, &kind).unwrap();
            let mut counts = [0_u64; DEGREE];
            sample.cols.iter().for_each(|col| counts[sample.vertices[*col as usize] as usize] += 1);
            let all = 700 * u64::from(fanout);
            assert_eq!(counts.iter().sum::<u64>(), all);
            // An edge that a seed has once at most is chosen less unevenly.
            let spread = if number % 2 == 0 { 1.0 - f64::from(fanout) / 100.0 } else { 1.0 };
            let statistic = chi_square(&counts, &[all as f64 / 100.0; DEGREE]) / spread;
            assert!(statistic < 161.0, "{statistic} for {counts:?}, choice {number} of {fanout}");
        }
    }
}

pub(crate) fn weighted_samples_without_replacement_have_the_right_pairs(device: &Device) {
    // As if one edge after the other was drawn in proportion to the weights that are left.
    const WEIGHTS: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let total: f64 = WEIGHTS.iter().sum();
    let pairs: Vec<(usize, usize)> = (0..6).flat_map(|i| (0..i).map(move |j| (j, i))).collect();
    let share = |i: usize, j: usize| WEIGHTS[i] / total * WEIGHTS[j] / (total - WEIGHTS[i]);
    let shares: Vec<f64> = pairs.iter().map(|&(i, j)| share(i, j) + share(j, i)).collect();
    let edges = |source: u32| (0..6).map(move |t| Edge::new(source, t).weight(WEIGHTS[t as usize] as f32));
    let graph = Graph::new(device, &options()).unwrap();
    let seeds: Vec<u32> = (100..8100).collect();
    graph.insert_edges(&seeds.iter().flat_map(|source| edges(*source)).collect::<Vec<Edge>>()).unwrap();
    // Without times by a warp, and with times, which all edges have.
    let kind = SampleOptions::new(&[2]).weighted().seed(21);
    let times = vec![0; seeds.len()];
    for sample in [graph.sample(&seeds, &kind).unwrap(), graph.sample_at(&seeds, &times, &kind).unwrap()] {
        let mut counts = vec![0_u64; pairs.len()];
        for two in sample.cols.chunks(2) {
            let [mut i, mut j] = [two[0], two[1]].map(|col| sample.vertices[col as usize] as usize);
            if i > j {
                std::mem::swap(&mut i, &mut j);
            }
            counts[pairs.iter().position(|pair| *pair == (i, j)).unwrap()] += 1;
        }
        let expected: Vec<f64> = shares.iter().map(|share| share * seeds.len() as f64).collect();
        let statistic = chi_square(&counts, &expected);
        // 14 degrees of freedom: 42 is exceeded with a probability of about 0.0001.
        assert!(statistic < 42.0, "{statistic} for {counts:?}, and not {expected:?}");
    }
}

pub(crate) fn an_empty_vertex_has_an_empty_sample(device: &Device) {
    let graphs =
        both(device, &[Edge::new(0, 1), Edge::new(2, 3).weight(0.0), Edge::new(4, 5).weight(f32::NAN)]);
    for (number, kind) in kinds(&[3, 3], 1).into_iter().enumerate() {
        let sample = agreed(&graphs, &[1, 7, 4_000_000_000, 1], None, &kind);
        assert_eq!((sample.vertices, sample.seeds), (vec![1, 7, 4_000_000_000], vec![0, 1, 2, 0]));
        assert_eq!((sample.rows.len(), sample.vertices_per_hop), (0, vec![3, 0, 0]));
        // Weights that are no positive, finite numbers are never chosen.
        let edges = agreed(&graphs, &[2, 4], None, &kind).rows.len();
        assert_eq!(edges > 0, number != 2 && number != 3);
        assert_eq!(agreed(&graphs, &[], None, &kind).vertices_per_hop, [0, 0, 0]);
    }
    assert_eq!(agreed(&graphs, &[0], None, &SampleOptions::new(&[])).vertices, [0]);
}

pub(crate) fn time_ties_are_broken_by_the_smaller_target(device: &Device) {
    let edges: Vec<Edge> = (1..9).map(|target| Edge::new(0, target).time(i64::from(target / 3))).collect();
    let graphs = both(device, &edges);
    let targets = |most, time, options: fn(SampleOptions) -> SampleOptions| {
        let kind = options(SampleOptions::new(&[most]).last());
        let sample = agreed(&graphs, &[0], Some(&[time]), &kind);
        sample.cols.iter().map(|col| sample.vertices[*col as usize]).collect::<Vec<u32>>()
    };
    // Times of the targets 1..9 are 0, 0, 1, 1, 1, 2, 2, 2.
    assert_eq!(targets(4, 5, |kind| kind), [6, 7, 8, 3]);
    assert_eq!(targets(2, 1, |kind| kind), [3, 4]);
    assert_eq!(targets(3, 1, SampleOptions::before), [1, 2]);
    assert_eq!(targets(9, 2, |kind| kind.window(1)), [6, 7, 8, 3, 4, 5]);
    assert_eq!(targets(9, i64::MIN, SampleOptions::before), [0; 0]);
    assert_eq!(targets(9, i64::MAX, |kind| kind.window(u64::MAX)).len(), 8);
}

pub(crate) fn large_times_are_compared_exactly(device: &Device) {
    // Times above 2^53 that differ by one are the same 64-bit floating-point number.
    let large = 1_i64 << 60;
    let edges: Vec<Edge> = (0..50).map(|i| Edge::new(0, i + 1).time(large + i64::from(i))).collect();
    let graphs = both(device, &edges);
    let sample = agreed(&graphs, &[0], Some(&[large + 30]), &SampleOptions::new(&[2]).last());
    assert_eq!(sample.times, [large + 30, large + 29]);
}

/// Work of the square of the fan-out would pass the limit of the simulator's steps.
pub(crate) fn a_fan_out_of_all_takes_the_list_once(device: &Device) {
    const DEGREE: u32 = 20_000;
    // Ascending times, some of them equal, and times in no order.
    let edges = |source: u32| {
        (0..DEGREE).map(move |i| {
            let time = if source == 0 { i / 3 } else { i.wrapping_mul(2_654_435_761) % 5000 };
            Edge::new(source, i + 2).time(i64::from(time)).weight((i % 7) as f32).id(u64::from(i))
        })
    };
    let graphs = both(device, &(0..2).flat_map(edges).collect::<Vec<Edge>>());
    for fanout in [u32::MAX, DEGREE - 1, 6000, 65] {
        for (number, kind) in kinds(&[fanout], u64::from(fanout)).into_iter().enumerate() {
            // With replacement each place takes the whole list.
            if number == 1 || number == 3 {
                continue;
            }
            let sample = agreed(&graphs, &[0, 1], None, &kind);
            let candidates = if number == 2 { DEGREE - DEGREE.div_ceil(7) } else { DEGREE };
            assert_eq!(sample.rows.len() as u32, 2 * candidates.min(fanout));
            if number == 4 {
                let (latest, _) = sample.ids.split_at(sample.ids.len() / 2);
                // Of equal times the smaller target comes first.
                let order = |id: &u64| (std::cmp::Reverse(id / 3), *id);
                assert!(latest.is_sorted_by_key(order) && latest[0] == u64::from(DEGREE) - 2);
            }
            let sample = agreed(&graphs, &[0, 1], Some(&[4000, 4000]), &kind);
            assert!(sample.times.iter().all(|time| *time <= 4000) && !sample.times.is_empty());
        }
    }
}

pub(crate) fn with_replacement_a_short_list_has_as_many_edges_as_asked_for(device: &Device) {
    let edges: Vec<Edge> = (1..4).map(|target| Edge::new(0, target).time(1)).collect();
    let graphs = both(device, &edges);
    let kind = |weighted: bool| {
        let kind = SampleOptions::new(&[40]).with_replacement().seed(3);
        if weighted { kind.weighted() } else { kind }
    };
    for kind in [kind(false), kind(true)] {
        for times in [None, Some(&[1_i64][..])] {
            let sample = agreed(&graphs, &[0], times, &kind);
            assert_eq!((sample.rows, sample.vertices.len()), (vec![0; 40], 4));
            assert!(sample.cols.iter().all(|col| (1..4).contains(col)));
        }
        // As well for each vertex of several, and none for a vertex without edges.
        assert_eq!(agreed(&graphs, &[0, 3, 0], Some(&[1, 1, 0]), &kind).edges_per_hop, [40]);
    }
}

pub(crate) fn both_forms_refuse_what_has_too_many_places(device: &Device) {
    let edges: Vec<Edge> = (0..40).map(|i| Edge::new(i % 2, i + 10).time(3)).collect();
    let graphs = both(device, &edges);
    let seeds = vec![0_u32; 1 << 16];
    let times = vec![3_i64; 1 << 16];
    let repeated = |fanouts: &[u32]| SampleOptions::new(fanouts).with_replacement();
    for (count, kind, given) in [
        (1, repeated(&[u32::MAX]), u64::from(u32::MAX)),
        (1, repeated(&[u32::MAX]).weighted(), u64::from(u32::MAX)),
        // Seeds that are equal have places of their own, also without times.
        (3, repeated(&[1 << 31]), 3 << 31),
        (1 << 16, repeated(&[1 << 16]), 1 << 32),
        // The first hop finds few vertices, and the second one would find many edges.
        (2, repeated(&[2, u32::MAX - 1]), 0),
        // As many places as there can be, and no numbers for the vertices.
        (1, repeated(&[u32::MAX - 1]), u64::from(u32::MAX)),
    ] {
        for (graph, with_times) in graphs.iter().flat_map(|graph| [(graph, false), (graph, true)]) {
            let error = match with_times {
                false => graph.sample(&seeds[..count], &kind).unwrap_err(),
                true => graph.sample_at(&seeds[..count], &times[..count], &kind).unwrap_err(),
            };
            let ContainerError::TooLarge { what: "places of one hop", given: found, .. } = error else {
                panic!("{error}")
            };
            assert!(found == given || given == 0, "{found} places, and not {given}");
        }
    }
    // Without replacement there are no more places than edges.
    let kind = SampleOptions::new(&[u32::MAX, u32::MAX]);
    assert_eq!(agreed(&graphs, &[0, 1, 0], None, &kind).rows.len(), 40);
    assert_eq!(agreed(&graphs, &[0, 1, 0], Some(&[3, 3, 3]), &kind).rows.len(), 60);
}
