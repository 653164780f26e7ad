//! Edges in text files.

use std::fs;

use warpkeep_containers::{ContainerError, Edge, EdgeList, Graph, GraphOptions};

fn read(text: impl AsRef<[u8]>) -> Result<EdgeList, ContainerError> {
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
    let pattern = "%%MatrixMarket matrix coordinate pattern general\n";
    let wrong = [
        ("0 1\n2\n", "line 2: a source and a target"),
        ("0 x\n", "line 1: \"x\" is no vertex"),
        ("0 4294967295\n", "is no vertex"),
        ("0 -1\n", "is no vertex"),
        ("0 1 heavy\n", "is no weight"),
        ("0 1 1 later\n", "is no time"),
        ("0 1 1 1 1\n", "more than four columns"),
        ("0,1,,,\n", "more than four columns"),
        ("1,,5\n", "line 1: \"\" is no vertex"),
        (",1\n", "\"\" is no vertex"),
        ("0 1,5\n", "\"0 1\" is no vertex"),
        ("0 1\r2 3\r", "line 1: it has a carriage return"),
        ("# a comment\r0 1\r", "line 1: it has a carriage return"),
        ("0 1\n%%MatrixMarket matrix coordinate real general\n", "line 2: a matrix begins in the middle"),
        ("%%MatrixMarket matrix array real general\n", "line 1: only matrices in coordinate"),
        ("# first\n%%matrixmarket matrix array real general\n", "line 2: only matrices in coordinate"),
        ("%%MatrixMarket matrix coordinate complex general\n", "complex"),
        ("%%MatrixMarket matrix coordinate real hermitian\n", "hermitian"),
        (banner, "before the sizes"),
        (&format!("{banner}3 3\n"), "rows, columns and entries"),
        (&format!("{banner}3 3 many\n"), "is no size"),
        (&format!("{banner}3 3 1\n0 1 1\n"), "\"0\" is no vertex"),
        (&format!("{banner}3 3 1\n1 4 1\n"), "\"4\" is no vertex"),
        (&format!("{banner}2 9 1\n9 1 1\n"), "line 3: \"9\" is no vertex"),
        (&format!("{banner}9 2 1\n1 9 1\n"), "line 3: \"9\" is no vertex"),
        (&format!("{banner}{banner}3 3 1\n"), "line 2: a matrix begins in the middle"),
        (&format!("{banner}3 3 1\n{banner}"), "line 3: a matrix begins in the middle"),
        (&format!("{banner}99 99 2\n1 2 1\n12 3"), "line 4: a row, a column and an entry are expected"),
        (&format!("{banner}99 99 1\n12 3 5 1700000000\n"), "line 3: a row, a column and an entry"),
        (&format!("{pattern}9 9 1\n1 2 1\n"), "line 3: a row and a column are expected"),
        (&format!("{pattern}9 9 1\n1\n"), "line 3: a row and a column are expected"),
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

#[test]
fn data_between_commas_may_be_left_out() {
    let list = read("0,1,,1700000000\n1, 2 ,0.5\n2,3,,\n3,4,\n").unwrap();
    let edges = [
        Edge::new(0, 1).time(1_700_000_000).id(0),
        Edge::new(1, 2).weight(0.5).id(1),
        Edge::new(2, 3).id(2),
        Edge::new(3, 4).id(3),
    ];
    assert_eq!(list.edges, edges);
}

#[test]
fn a_matrix_begins_with_its_banner_whatever_is_before_it() {
    for before in ["", "\n", "% made by a program\n\n  # and another\n"] {
        for banner in ["%%MatrixMarket", "%%matrixmarket", "  %%MATRIXMARKET"] {
            let list = read(format!("{before}{banner} matrix coordinate real general\n3 3 1\n3 1 2\n"));
            let list = list.unwrap();
            assert_eq!((list.edges, list.vertices), (vec![Edge::new(2, 0).weight(2.0)], 3));
        }
    }
    // A comment that only begins alike is one.
    assert_eq!(read("%%MatrixMarkets\n0 1\n").unwrap().edges, [Edge::new(0, 1)]);
}

#[test]
fn lines_may_end_with_carriage_return_and_line_feed() {
    let list = read("# a comment\r\n\r\n0 1\r\n2,3,0.5\r\n4 5 1 6").unwrap();
    let edges = [Edge::new(0, 1).id(0), Edge::new(2, 3).weight(0.5).id(1), Edge::new(4, 5).time(6).id(2)];
    assert_eq!(list.edges, edges);
    let text = "%%MatrixMarket matrix coordinate pattern symmetric\r\n%\r\n3 3 1\r\n3 1\r\n";
    let list = read(text).unwrap();
    assert_eq!((list.edges, list.is_symmetric), (vec![Edge::new(2, 0)], true));
}

#[test]
fn text_of_other_encodings_and_files_without_lines_are_damaged() {
    assert_eq!(read(b"% M\xfcller\n0 1\n").unwrap().edges, [Edge::new(0, 1)]);
    let longest = format!("#{}\n0 1\n", "x".repeat((1 << 16) - 2));
    assert_eq!(read(&longest).unwrap().edges, [Edge::new(0, 1)]);
    let wrong = [
        (b"0 1\xff\n".to_vec(), "line 1: it is not text in UTF-8"),
        (b"0 1\n%%MatrixMarket \xff\n".to_vec(), "line 2: it is not text in UTF-8"),
        (vec![0; 1 << 20], "line 1: it has more than 65536 bytes"),
        (longest.replace('#', "##").into_bytes(), "line 1: it has more than 65536 bytes"),
    ];
    for (bytes, what) in wrong {
        let error = read(bytes).unwrap_err();
        assert!(matches!(error, ContainerError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}, and not {what}");
    }
}
