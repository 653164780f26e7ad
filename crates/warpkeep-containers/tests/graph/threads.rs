//! Threads that read a graph while another one changes it.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_containers::{Edge, EdgeOp, Graph, GraphOptions};
use warpkeep_device::Device;

tests_of! {
    snapshots_are_read_while_batches_go_on,
    queries_beside_batches_see_whole_batches,
    threads_see_whole_batches,
}

pub(crate) fn snapshots_are_read_while_batches_go_on(device: &Device) {
    let graph = Graph::new(device, &GraphOptions::default()).unwrap();
    graph.insert_edges(&(0..400).map(|i| Edge::new(i % 20, i)).collect::<Vec<_>>()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let snapshot = graph.snapshot().unwrap();
                    let (first, count) = (snapshot.csr().unwrap(), snapshot.edge_count());
                    std::thread::yield_now();
                    assert_eq!((snapshot.csr().unwrap(), first.targets.len() as u64), (first, count));
                }
            });
        }
        for round in 0..40 {
            let ops = (0..200).map(|i| match (i + round) % 3 {
                0 => EdgeOp::delete(i % 20, i * 2),
                _ => EdgeOp::insert(Edge::new(i % 20, i * 2)),
            });
            graph.apply(&ops.collect::<Vec<_>>()).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    graph.verify().unwrap();
}

pub(crate) fn queries_beside_batches_see_whole_batches(device: &Device) {
    let graph = Graph::new(device, &GraphOptions::default().ids()).unwrap().without_small_batches();
    // Each batch replaces all edges by as many others with an id of its own.
    let batch = |round: u32| -> Vec<EdgeOp> {
        let edges = move |round: u32| (0..300).map(move |i| Edge::new(i % 10, 1000 * round + i));
        let old = edges(round).map(|edge| EdgeOp::delete(edge.source, edge.target));
        old.chain(edges(round + 1).map(|edge| EdgeOp::insert(edge.id(u64::from(round))))).collect()
    };
    graph.apply(&batch(0)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let rows = graph.csr().unwrap();
                    assert_eq!(rows.targets.len(), 300);
                    assert!(rows.ids.iter().all(|id| *id == rows.ids[0]), "{:?}", rows.ids);
                    let snapshot = graph.snapshot().unwrap();
                    assert_eq!(snapshot.csr().unwrap().targets.len(), 300);
                }
            });
        }
        for round in 1..30 {
            graph.apply(&batch(round)).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    graph.verify().unwrap();
}

pub(crate) fn threads_see_whole_batches(device: &Device) {
    let graph = Graph::new(device, &GraphOptions::default()).unwrap();
    let (even, odd): (Vec<Edge>, Vec<Edge>) = (
        (0..50).map(|i| Edge::new(0, 2 * i + 2)).collect(),
        (0..50).map(|i| Edge::new(0, 2 * i + 1)).collect(),
    );
    graph.insert_edges(&even).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..30 {
                let (gone, new) = if round % 2 == 0 { (&even, &odd) } else { (&odd, &even) };
                let mut ops: Vec<EdgeOp> = gone.iter().map(|e| EdgeOp::delete(e.source, e.target)).collect();
                ops.extend(new.iter().map(|edge| EdgeOp::insert(*edge)));
                graph.apply(&ops).unwrap();
            }
        });
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..60 {
                    let list = graph.neighbours(&[0]).unwrap().targets;
                    assert!(
                        list.len() == 50 && list.iter().all(|target| target % 2 == list[0] % 2),
                        "{list:?}"
                    );
                }
            });
        }
    });
    graph.verify().unwrap();
}
