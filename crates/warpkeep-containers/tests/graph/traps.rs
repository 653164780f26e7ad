//! Mistakes that other dynamic graphs for GPUs made, each as a test.

use warpkeep_containers::{Edge, EdgeOp, EdgeStatus, Graph, GraphOptions};
use warpkeep_device::Device;

use crate::model::{Model, Shape, check_contents};

tests_of! {
    a_second_insert_is_as_good_as_the_first,
    the_same_batch_goes_into_two_graphs,
    an_undirected_batch_may_hold_both_directions,
    a_hub_takes_all_edges_of_a_large_batch,
    an_edge_with_all_operations_of_a_batch_answers_in_order,
    vertices_beyond_the_table_are_added_and_asked_for,
    loops_are_dropped_or_kept_as_the_options_say,
    a_deleted_vertex_leaves_no_reverse_edge,
    an_edge_stays_with_its_data_when_its_block_moves,
    memory_comes_back_after_edges_are_deleted,
    a_batch_may_have_more_than_a_million_operations,
    one_vertex_takes_all_operations_of_a_very_large_batch,
    a_directed_batch_may_hold_an_edge_many_times,
}

fn graph(device: &Device, shape: Shape) -> Graph {
    Graph::new(device, &shape.options()).unwrap()
}

fn undirected() -> Shape {
    Shape { undirected: true, ..Shape::default() }
}

pub(crate) fn a_second_insert_is_as_good_as_the_first(device: &Device) {
    let graph = graph(device, Shape::default());
    for round in 0..5_u32 {
        let edges: Vec<Edge> = (0..300).map(|i| Edge::new(i % 7, 10 * i + round + 10)).collect();
        let statuses = graph.insert_edges(&edges).unwrap();
        assert!(statuses.iter().all(|status| *status == EdgeStatus::Inserted), "round {round}");
        let again = graph.insert_edges(&edges).unwrap();
        assert!(again.iter().all(|status| *status == EdgeStatus::Updated), "round {round}");
        assert_eq!(graph.edge_count(), 300 * u64::from(round + 1));
        graph.verify().unwrap();
    }
}

pub(crate) fn the_same_batch_goes_into_two_graphs(device: &Device) {
    let (one, two) = (graph(device, undirected()), graph(device, Shape::default()));
    let edges: Vec<Edge> = (0..500).map(|i| Edge::new(i % 20, i % 33)).collect();
    let kept = edges.clone();
    one.insert_edges(&edges).unwrap();
    two.insert_edges(&edges).unwrap();
    assert_eq!(edges, kept);
    let pairs: Vec<(u32, u32)> = edges.iter().map(|edge| (edge.source, edge.target)).collect();
    let right: Vec<bool> = pairs.iter().map(|(source, target)| source != target).collect();
    assert_eq!((one.edges_exist(&pairs).unwrap(), two.edges_exist(&pairs).unwrap()), (right.clone(), right));
    // And out of both again, twice.
    for graph in [&one, &two] {
        graph.delete_edges(&pairs).unwrap();
        let again = graph.delete_edges(&pairs).unwrap();
        assert!(again.iter().all(|s| matches!(s, EdgeStatus::Absent | EdgeStatus::Loop)));
        assert_eq!(graph.edge_count(), 0);
        graph.verify().unwrap();
    }
}

pub(crate) fn an_undirected_batch_may_hold_both_directions(device: &Device) {
    let shape = Shape { weights: true, ..undirected() };
    let graph = graph(device, shape);
    let ops = [
        EdgeOp::insert(Edge::new(1, 2).weight(1.0)),
        EdgeOp::insert(Edge::new(2, 1).weight(2.0)),
        EdgeOp::insert(Edge::new(4, 3).weight(3.0)),
        EdgeOp::delete(3, 4),
        EdgeOp::insert(Edge::new(3, 4).weight(5.0)),
    ];
    let answers = graph.apply(&ops).unwrap();
    use EdgeStatus::{Deleted, Inserted, Updated};
    assert_eq!(answers, [Inserted, Updated, Inserted, Deleted, Inserted]);
    assert_eq!(graph.edges().unwrap(), [Edge::new(1, 2).weight(2.0), Edge::new(3, 4).weight(5.0)]);
    assert_eq!((graph.edge_count(), graph.csr().unwrap().targets.len()), (2, 4));
    graph.verify().unwrap();
}

pub(crate) fn a_hub_takes_all_edges_of_a_large_batch(device: &Device) {
    for shape in [Shape { ids: true, ..Shape::default() }, undirected()] {
        let (graph, mut model) = (graph(device, shape), Model::new(shape));
        // More than a long list, in one batch and then by few at a time, so that the list is moved whole and within its block.
        for (count, step) in [(9000, 3), (5, 7), (40, 1), (3000, 2)] {
            let ops: Vec<EdgeOp> = (0..count)
                .map(|i| match i % 5 {
                    4 => EdgeOp::delete(0, (i * step) % 20_000 + 1),
                    _ => EdgeOp::insert(Edge::new(0, (i * step * 7919) % 20_000 + 1).id(u64::from(i))),
                })
                .collect();
            let right: Vec<EdgeStatus> = ops.iter().map(|op| model.apply(*op)).collect();
            assert_eq!(graph.apply(&ops).unwrap(), right);
        }
        check_contents(&graph, &model).unwrap();
    }
}

pub(crate) fn an_edge_with_all_operations_of_a_batch_answers_in_order(device: &Device) {
    let graph = graph(device, undirected());
    let ops: Vec<EdgeOp> = (0..6000)
        .map(|i| if i % 3 == 2 { EdgeOp::delete(5, 9) } else { EdgeOp::insert(Edge::new(9, 5)) })
        .collect();
    let cycle = [EdgeStatus::Inserted, EdgeStatus::Updated, EdgeStatus::Deleted];
    assert!(graph.apply(&ops).unwrap().iter().enumerate().all(|(at, status)| *status == cycle[at % 3]));
    assert_eq!(graph.edge_count(), 0);
}

pub(crate) fn vertices_beyond_the_table_are_added_and_asked_for(device: &Device) {
    let graph = graph(device, Shape::default());
    assert_eq!((graph.vertex_count(), graph.degrees(&[0, 7]).unwrap()), (0, vec![0, 0]));
    graph.insert_edges(&[Edge::new(0, 1)]).unwrap();
    // Only an insert makes vertices; no edge comes to vertex 0 instead.
    let answers = graph.apply(&[EdgeOp::delete(90_000, 3), EdgeOp::delete(3, 90_000)]).unwrap();
    assert_eq!((answers, graph.vertex_count()), (vec![EdgeStatus::Absent; 2], 2));
    graph.insert_edges(&[Edge::new(3, 100_000), Edge::new(100_000, 3)]).unwrap();
    assert_eq!(graph.vertex_count(), 100_001);
    assert_eq!(graph.degrees(&[0, 1, 3, 99_999, 100_000, 4_000_000_000]).unwrap(), [1, 0, 1, 0, 1, 0]);
    assert_eq!(graph.csr().unwrap().targets, [1, 100_000, 3]);
    graph.verify().unwrap();
}

pub(crate) fn loops_are_dropped_or_kept_as_the_options_say(device: &Device) {
    for undirected in [false, true] {
        let dropping = graph(device, Shape { undirected, ..Shape::default() });
        let ops = [EdgeOp::insert(Edge::new(4, 4)), EdgeOp::insert(Edge::new(4, 5)), EdgeOp::delete(4, 4)];
        use EdgeStatus::{Deleted, Inserted, Loop, Updated};
        assert_eq!(dropping.apply(&ops).unwrap(), [Loop, Inserted, Loop]);
        assert_eq!((dropping.edge_count(), dropping.stats().loops), (1, 0));
        let keeping = graph(device, Shape { undirected, keeps_loops: true, ..Shape::default() });
        let ops = [ops[0], ops[1], EdgeOp::insert(Edge::new(4, 4))];
        assert_eq!(keeping.apply(&ops).unwrap(), [Inserted, Inserted, Updated]);
        let stats = keeping.stats();
        assert_eq!((stats.edges, stats.loops, stats.entries), (2, 1, if undirected { 3 } else { 2 }));
        assert_eq!(keeping.degrees(&[4]).unwrap(), [2]);
        keeping.verify().unwrap();
        assert_eq!(keeping.apply(&[EdgeOp::delete(4, 4)]).unwrap(), [Deleted]);
        assert_eq!((keeping.edge_count(), keeping.stats().loops), (1, 0));
    }
}

pub(crate) fn a_deleted_vertex_leaves_no_reverse_edge(device: &Device) {
    for shape in
        [Shape { keeps_loops: true, ..Shape::default() }, Shape { keeps_loops: true, ..undirected() }]
    {
        let (graph, mut model) = (graph(device, shape), Model::new(shape));
        let edges: Vec<Edge> = (0..900).map(|i| Edge::new(i % 30, i * 7 % 41)).collect();
        graph.insert_edges(&edges).unwrap();
        edges.iter().for_each(|edge| {
            model.apply(EdgeOp::insert(*edge));
        });
        let doomed = [3, 7, 29, 40, 7, 5000];
        assert_eq!(graph.delete_vertices(&doomed).unwrap(), model.delete_vertices(&doomed));
        check_contents(&graph, &model).unwrap();
        assert_eq!(graph.degrees(&doomed).unwrap(), [0; 6]);
        assert!(!graph.csr().unwrap().targets.iter().any(|target| doomed.contains(target)));
        // The numbers can be used again.
        assert_eq!(graph.insert_edges(&[Edge::new(7, 3)]).unwrap(), [EdgeStatus::Inserted]);
        model.apply(EdgeOp::insert(Edge::new(7, 3)));
        check_contents(&graph, &model).unwrap();
    }
}

pub(crate) fn an_edge_stays_with_its_data_when_its_block_moves(device: &Device) {
    // Lists of different lengths grow past their blocks again and again, while others shrink.
    let shape = Shape { ids: true, times: true, weights: true, ..Shape::default() };
    let (graph, mut model) = (graph(device, shape), Model::new(shape));
    for round in 0..25_u32 {
        let ops: Vec<EdgeOp> = (0..400)
            .map(|i| {
                let (source, target) = (i % 13, (i * 31 + round * 17) % 400);
                match (i + round) % 4 {
                    3 => EdgeOp::delete(source, target),
                    _ => EdgeOp::insert(
                        Edge::new(source, target).id(u64::from(i)).time(-i64::from(round)).weight(i as f32),
                    ),
                }
            })
            .collect();
        let right: Vec<EdgeStatus> = ops.iter().map(|op| model.apply(*op)).collect();
        assert_eq!(graph.apply(&ops).unwrap(), right);
    }
    check_contents(&graph, &model).unwrap();
}

pub(crate) fn memory_comes_back_after_edges_are_deleted(device: &Device) {
    let graph = Graph::new(device, &GraphOptions::default()).unwrap();
    let edges: Vec<Edge> = (0..30_000).map(|i| Edge::new(i % 100, i)).collect();
    let pairs: Vec<(u32, u32)> = edges.iter().map(|edge| (edge.source, edge.target)).collect();
    graph.insert_edges(&edges).unwrap();
    let bytes = graph.stats().bytes;
    for _ in 0..12 {
        graph.delete_edges(&pairs).unwrap();
        graph.insert_edges(&edges).unwrap();
        graph.verify().unwrap();
    }
    let stats = graph.stats();
    assert!(stats.compactions > 0 && stats.bytes <= 4 * bytes, "{stats:?}, and {bytes} bytes at first");
    graph.delete_edges(&pairs[1000..]).unwrap();
    graph.compact().unwrap();
    let stats = graph.stats();
    assert!(stats.slots <= 2000 && stats.dead_slots == 0, "{stats:?}");
}

pub(crate) fn a_batch_may_have_more_than_a_million_operations(device: &Device) {
    let count = (1 << 20) + 777;
    // Most of them are on edges of their own, so that there are more runs than a block sums up at once.
    let op = |i: u32| match i % 5 {
        4 => EdgeOp::delete(i % 1021, i * 7 % 599),
        _ => EdgeOp::insert(Edge::new(i % 1021, i / 1021 % 797)),
    };
    let ops: Vec<EdgeOp> = (0..count).map(op).collect();
    let shape = Shape { keeps_loops: true, ..Shape::default() };
    let (on_device, on_cpu) = (graph(device, shape), Graph::on_cpu(&shape.options()));
    assert!(on_device.apply(&ops).unwrap() == on_cpu.apply(&ops).unwrap());
    assert_eq!(on_device.csr().unwrap(), on_cpu.csr().unwrap());
    on_device.verify().unwrap();
}

pub(crate) fn one_vertex_takes_all_operations_of_a_very_large_batch(device: &Device) {
    for (count, shape) in [(1 << 18, Shape { ids: true, ..Shape::default() }), (1 << 16, undirected())] {
        let (on_device, on_cpu) = (graph(device, shape), Graph::on_cpu(&shape.options()));
        // The list is made, then changed in all parts, with edges that a batch names several times.
        for (step, range) in [(1, count), (7919, count / 2 + 77)] {
            let ops: Vec<EdgeOp> = (0..count)
                .map(|i: u32| {
                    let target = i.wrapping_mul(step) % range + 1;
                    match i % 5 {
                        4 => EdgeOp::delete(0, target),
                        _ => EdgeOp::insert(Edge::new(0, target).id(u64::from(i))),
                    }
                })
                .collect();
            assert!(on_device.apply(&ops).unwrap() == on_cpu.apply(&ops).unwrap());
            assert!(on_device.csr().unwrap() == on_cpu.csr().unwrap());
            assert_eq!(on_device.edge_count(), on_cpu.edge_count());
        }
        on_device.verify().unwrap();
    }
}

pub(crate) fn a_directed_batch_may_hold_an_edge_many_times(device: &Device) {
    use EdgeStatus::{Inserted, Updated};
    let shape = Shape { weights: true, ids: true, times: true, ..Shape::default() };
    for count in [2_u64, 33, 5000] {
        for graph in [graph(device, shape), graph(device, shape).without_small_batches()] {
            // Two edges in turn, and the reverse of one of them, which is an edge of its own.
            let edge = |i: u64| {
                let (source, target) = [(4, 9), (9, 4), (4, 2)][(i % 3) as usize];
                Edge::new(source, target).weight(i as f32).id(i).time(-(i as i64))
            };
            let edges: Vec<Edge> = (0..3 * count).map(edge).collect();
            let statuses = graph.insert_edges(&edges).unwrap();
            assert!(statuses[..3].iter().all(|status| *status == Inserted), "{:?}", &statuses[..3]);
            assert!(statuses[3..].iter().all(|status| *status == Updated));
            // The last of each decides the data.
            let [.., one, two, three] = edges[..] else { panic!("there are three edges") };
            assert_eq!(graph.edges().unwrap(), [three, one, two]);
            assert_eq!((graph.edge_count(), graph.degrees(&[4, 9]).unwrap()), (3, vec![2, 1]));
            graph.verify().unwrap();
        }
    }
}
