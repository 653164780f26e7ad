//! Algorithms beside plain ones on a map of sets.

use std::collections::{BTreeMap, BTreeSet};

use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions};
use warpkeep_device::Device;

tests_of! {
    paths_hubs_and_cliques,
    an_empty_graph_and_a_directed_one_have_their_answers,
    lists_of_every_length_are_counted,
    ranks_begin_where_earlier_ones_ended,
}

pub(crate) type Sets = BTreeMap<u32, BTreeSet<u32>>;

/// The same graph on the simulator and on the CPU, and as a map of sets.
fn graphs(device: &Device, options: &GraphOptions, edges: &[Edge]) -> ([Graph; 2], Sets) {
    let graphs = [Graph::new(device, options).unwrap(), Graph::on_cpu(options)];
    let mut sets = Sets::new();
    for graph in &graphs {
        graph.insert_edges(edges).unwrap();
    }
    for edge in graphs[1].csr().unwrap().edges() {
        sets.entry(edge.source).or_default().insert(edge.target);
    }
    (graphs, sets)
}

/// Distances by relaxing all edges until nothing changes.
fn distances(sets: &Sets, vertices: usize, sources: &[u32]) -> Vec<u32> {
    let mut levels = vec![u32::MAX; vertices];
    sources
        .iter()
        .filter(|source| (**source as usize) < vertices)
        .for_each(|source| levels[*source as usize] = 0);
    loop {
        let before = levels.clone();
        for (source, targets) in sets {
            for target in targets {
                let through = levels[*source as usize].saturating_add(1);
                levels[*target as usize] = levels[*target as usize].min(through);
            }
        }
        if levels == before {
            return levels;
        }
    }
}

/// The smallest vertex of each component, by spreading it until nothing changes.
fn smallest(sets: &Sets, vertices: usize) -> Vec<u32> {
    let mut labels: Vec<u32> = (0..vertices as u32).collect();
    loop {
        let before = labels.clone();
        for (source, targets) in sets {
            for target in targets {
                let label = labels[*source as usize].min(labels[*target as usize]);
                (labels[*source as usize], labels[*target as usize]) = (label, label);
            }
        }
        if labels == before {
            return labels;
        }
    }
}

pub(crate) fn triangles(sets: &Sets) -> u64 {
    let mut count = 0;
    for (one, targets) in sets {
        for two in targets.iter().filter(|two| *two > one) {
            count += targets.iter().filter(|three| *three > two && sets[two].contains(three)).count();
        }
    }
    count as u64
}

fn ranks(sets: &Sets, vertices: usize, rounds: u32) -> Vec<f64> {
    let mut ranks = vec![1.0 / vertices as f64; vertices];
    for _ in 0..rounds {
        let mut sums = vec![0.0; vertices];
        for (vertex, rank) in ranks.iter().enumerate() {
            match sets.get(&(vertex as u32)) {
                Some(targets) => {
                    targets.iter().for_each(|target| sums[*target as usize] += rank / targets.len() as f64);
                }
                None => sums.iter_mut().for_each(|sum| *sum += rank / vertices as f64),
            }
        }
        ranks = sums.iter().map(|sum| 0.15 / vertices as f64 + 0.85 * sum).collect();
    }
    ranks
}

/// Core numbers: for each k, vertices with fewer than k neighbours go until none does.
fn cores(sets: &Sets, vertices: usize) -> Vec<u32> {
    let mut cores = vec![0; vertices];
    let mut left: Sets = sets.clone();
    left.iter_mut().for_each(|(vertex, targets)| {
        targets.remove(vertex);
    });
    for k in 1.. {
        while let Some(vertex) = left.iter().find(|(_, targets)| targets.len() < k).map(|(vertex, _)| *vertex)
        {
            left.remove(&vertex);
            left.values_mut().for_each(|targets| {
                targets.remove(&vertex);
            });
        }
        if left.is_empty() {
            return cores;
        }
        left.keys().for_each(|vertex| cores[*vertex as usize] = k as u32);
    }
    unreachable!("each k takes vertices away")
}

pub(crate) fn check(device: &Device, options: &GraphOptions, edges: &[Edge], sources: &[u32]) {
    let (graphs, sets) = graphs(device, options, edges);
    let vertices = graphs[0].vertex_count() as usize;
    let right = ranks(&sets, vertices, 12);
    let mut all = Vec::new();
    for graph in &graphs {
        assert_eq!(graph.bfs(sources).unwrap(), distances(&sets, vertices, sources));
        assert_eq!(graph.components().unwrap(), smallest(&sets, vertices));
        if *options != GraphOptions::default().keep_loops() && *options != GraphOptions::default() {
            assert_eq!(graph.triangles().unwrap(), triangles(&sets));
            assert_eq!(graph.core_numbers().unwrap(), cores(&sets, vertices));
        }
        let found = graph.pagerank(0.85, 12).unwrap();
        for (found, right) in found.iter().zip(&right) {
            assert!((found - right).abs() < 1e-12, "{found} and not {right}");
        }
        all.push(found);
    }
    assert_eq!(all[0], all[1], "both forms have the same ranks");
}

pub(crate) fn paths_hubs_and_cliques(device: &Device) {
    let options = GraphOptions::default().undirected();
    // A path whose numbers jump, a star with a long list, and a clique beside both.
    let path = (0..60_u32).map(|i| Edge::new(i * 37 % 61, (i + 1) * 37 % 61));
    let star = (0..300_u32).map(|i| Edge::new(100, 101 + i));
    let clique = (0..20_u32).flat_map(|i| (0..i).map(move |j| Edge::new(500 + i, 500 + j)));
    // Two hubs that have all vertices of the star in common, so that lists of very different lengths meet.
    let second = (0..300_u32).step_by(40).map(|i| Edge::new(99, 101 + i)).chain([Edge::new(99, 100)]);
    let edges: Vec<Edge> = path.chain(star).chain(clique).chain(second).collect();
    check(device, &options, &edges, &[0]);
    let (graphs, _) = graphs(device, &options, &edges);
    assert_eq!(graphs[0].triangles().unwrap(), 20 * 19 * 18 / 6 + 8);
}

pub(crate) fn an_empty_graph_and_a_directed_one_have_their_answers(device: &Device) {
    let (graphs, _) = graphs(device, &GraphOptions::default(), &[]);
    for graph in &graphs {
        assert!(graph.bfs(&[0, 7]).unwrap().is_empty() && graph.components().unwrap().is_empty());
        assert!(graph.pagerank(0.85, 3).unwrap().is_empty());
        let error = graph.triangles().unwrap_err();
        assert!(matches!(error, ContainerError::Directed { call: "triangles" }), "{error}");
        let error = graph.core_numbers().unwrap_err();
        assert!(matches!(error, ContainerError::Directed { call: "core_numbers" }), "{error}");
        graph.insert_edges(&[Edge::new(0, 1)]).unwrap();
        let ranks = graph.pagerank(f64::NAN, 5).unwrap();
        assert_eq!(ranks, [0.5, 0.5]);
    }
}

pub(crate) fn lists_of_every_length_are_counted(device: &Device) {
    let options = GraphOptions::default().undirected();
    // Cliques whose largest lists are in registers, in the table of a warp and in that of a block, and a hub that is oriented by a block.
    let mut edges = Vec::new();
    for (first, size) in [(0, 9), (20, 60), (100, 130)] {
        edges.extend((0..size).flat_map(|i| (0..i).map(move |j| Edge::new(first + i, first + j))));
    }
    edges.extend((0..4200).map(|i| Edge::new(300, 301 + i)));
    edges.extend((0..4000).map(|i| Edge::new(301 + i, 302 + i)));
    // A second hub, with half of the vertices of the first.
    edges.extend((0..4200).map(|i| Edge::new(299, 301 + 2 * i)));
    edges.push(Edge::new(299, 300));
    // Vertices with two neighbours in the largest clique, one of which has a long list with the other near its end.
    edges.extend((0..20).flat_map(|i| [Edge::new(9000 + i, 100 + i), Edge::new(9000 + i, 229 - i)]));
    let (graphs, sets) = graphs(device, &options, &edges);
    let right = triangles(&sets);
    for graph in &graphs {
        assert_eq!(graph.triangles().unwrap(), right);
        let cores = graph.core_numbers().unwrap();
        assert_eq!([0, 20, 100, 300, 301].map(|vertex| cores[vertex]), [8, 59, 129, 3, 3]);
    }
    assert_eq!(graphs[0].core_numbers().unwrap(), graphs[1].core_numbers().unwrap());
}

pub(crate) fn ranks_begin_where_earlier_ones_ended(device: &Device) {
    let edges: Vec<Edge> = (0..300_u32).map(|i| Edge::new(i * 7 % 61, i * i % 83)).collect();
    let (graphs, _) = graphs(device, &GraphOptions::default(), &edges);
    let mut all = Vec::new();
    for graph in &graphs {
        let cold = graph.pagerank_until(&[], 0.85, 1e-10, 500).unwrap();
        assert!(cold.rounds > 20 && cold.change <= 1e-10, "{cold:?}");
        // A few new edges, one of them of new vertices.
        graph.insert_edges(&[Edge::new(3, 5), Edge::new(90, 91)]).unwrap();
        let warm = graph.pagerank_until(&cold.ranks, 0.85, 1e-10, 500).unwrap();
        let again = graph.pagerank_until(&[], 0.85, 1e-10, 500).unwrap();
        assert!(warm.rounds < again.rounds, "{} and {}", warm.rounds, again.rounds);
        assert!(warm.ranks.iter().zip(&again.ranks).all(|(one, two)| (one - two).abs() < 1e-9));
        let few = graph.pagerank_from(&cold.ranks, 0.85, 3).unwrap();
        assert_eq!(few, graph.pagerank_until(&cold.ranks, 0.85, 0.0, 3).unwrap().ranks);
        assert_eq!(graph.pagerank_until(&cold.ranks, 0.85, 2.0, 9).unwrap().rounds, 1);
        assert_eq!(graph.pagerank_until(&[], 0.85, 1.0, 0).unwrap().change, 2.0);
        for bad in [vec![-1.0], vec![f64::NAN], vec![1.0; 200], vec![0.0; 92], vec![f64::MAX; 4]] {
            let error = graph.pagerank_from(&bad, 0.85, 3).unwrap_err();
            assert!(matches!(error, ContainerError::BadRanks { .. }), "{error}");
        }
        all.push((cold, warm, few));
    }
    assert_eq!(all[0], all[1], "both forms have the same ranks and rounds");
}
