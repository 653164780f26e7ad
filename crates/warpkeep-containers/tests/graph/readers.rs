//! Edges in text files.

use std::fs;

use warpkeep_containers::{ContainerError, Edge, EdgeList, Graph, GraphOptions};

fn read(text: &str) -> Result<EdgeList, ContainerError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.txt");
    fs::write(&path, text).unwrap();
    EdgeList::read(&path)
}

#[test]
fn lists_of_edges_have_weights_and_times_or_none() {
    let list = read("# a comment\n\n0\t7\n 3 4 -0.25 \n5,6,1e3,-9000000000000000001\n").unwrap();
    let edges = [
        Edge::new(0, 7).id(0),
        Edge::new(3, 4).weight(-0.25).id(1),
        Edge::new(5, 6).weight(1000.0).time(-9_000_000_000_000_000_001).id(2),
    ];
    assert_eq!((list.edges.as_slice(), list.vertices, list.is_symmetric), (&edges[..], 8, false));
    assert!(read("").unwrap().edges.is_empty());
}

#[test]
fn matrices_begin_with_one_and_state_their_sizes() {
    let text = "%%MatrixMarket matrix coordinate pattern symmetric\n% a comment\n5 5 3\n2 1\n3 1\n3 2\n";
    let list = read(text).unwrap();
    assert_eq!((list.vertices, list.is_symmetric), (5, true));
    let graph = Graph::on_cpu(&GraphOptions::default().undirected());
    graph.insert_edges(&list.edges).unwrap();
    assert_eq!((graph.triangles().unwrap(), graph.edge_count()), (1, 3));
    let list = read("%%MatrixMarket Matrix Coordinate Real General\n2 9 1\n2 9 4.5\n").unwrap();
    assert_eq!((list.edges, list.vertices), (vec![Edge::new(1, 8).weight(4.5)], 9));
}

#[test]
fn lines_that_cannot_be_read_are_named() {
    let banner = "%%MatrixMarket matrix coordinate real general\n";
    let wrong = [
        ("0 1\n2\n", "line 2: a source and a target"),
        ("0 x\n", "line 1: \"x\" is no vertex"),
        ("0 4294967295\n", "is no vertex"),
        ("0 -1\n", "is no vertex"),
        ("0 1 heavy\n", "is no weight"),
        ("0 1 1 later\n", "is no time"),
        ("0 1 1 1 1\n", "more than four columns"),
        ("%%MatrixMarket matrix array real general\n", "line 1: only matrices in coordinate"),
        ("%%MatrixMarket matrix coordinate complex general\n", "complex"),
        ("%%MatrixMarket matrix coordinate real hermitian\n", "hermitian"),
        (banner, "before the sizes"),
        (&format!("{banner}3 3\n"), "rows, columns and entries"),
        (&format!("{banner}3 3 many\n"), "is no size"),
        (&format!("{banner}3 3 1\n0 1 1\n"), "\"0\" is no vertex"),
        (&format!("{banner}3 3 1\n1 4 1\n"), "\"4\" is no vertex"),
        (&format!("{banner}3 3 2\n1 2 1\n"), "1 entries, and 2 are announced"),
        (&format!("{banner}3 3 1\n1 2 1\n1 3 1\n"), "line 4: there are more entries"),
    ];
    for (text, what) in wrong {
        let error = read(text).unwrap_err();
        assert!(matches!(error, ContainerError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}, and not {what}");
    }
    assert!(matches!(EdgeList::read("/nowhere/edges.txt"), Err(ContainerError::Io { .. })));
}
