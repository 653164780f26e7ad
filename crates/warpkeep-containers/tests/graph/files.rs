//! Graphs in files, and files that are damaged.

use std::fs;

use warpkeep_containers::{ContainerError, Edge, Graph, GraphOptions, HashMap, HashMapOptions};

use crate::device;
use crate::model::Shape;

fn filled(shape: Shape, count: u32) -> Graph {
    let graph = Graph::new(&device(), &shape.options()).unwrap();
    let edges: Vec<Edge> = (0..count)
        .map(|i| {
            Edge::new(i % 97, i * i % 1009)
                .weight(i as f32 / 3.0)
                .id(u64::MAX - u64::from(i))
                .time(-i64::from(i))
        })
        .collect();
    graph.insert_edges(&edges).unwrap();
    graph
}

#[test]
fn a_saved_graph_is_loaded_on_a_device_and_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.graph");
    let device = device();
    for (number, count) in [(0, 0), (0b11111, 1), (0b00101, 5000), (0b11011, 10_000), (0b01000, 300)] {
        let shape = Shape::of(number);
        let graph = filled(shape, count);
        // The last vertex has no edges, and is a vertex all the same.
        graph.insert_edges(&[Edge::new(1, 3000)]).unwrap();
        graph.delete_edges(&[(1, 3000)]).unwrap();
        graph.save(&path).unwrap();
        let options = shape.options();
        let loaded = Graph::load(&device, &path, &options).unwrap();
        loaded.verify().unwrap();
        let on_cpu = Graph::load_on_cpu(&path, &options).unwrap();
        assert_eq!((loaded.csr().unwrap(), loaded.vertex_count()), (graph.csr().unwrap(), 3001));
        assert_eq!(on_cpu.csr().unwrap(), graph.csr().unwrap());
        on_cpu.save(&path).unwrap();
        assert_eq!(Graph::load(&device, &path, &options).unwrap().csr().unwrap(), graph.csr().unwrap());
    }
}

/// Changes the records of a file.
type Change = fn(&mut [u8]);

#[test]
fn every_damaged_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.graph");
    let shape = Shape::of(0b10100);
    filled(shape, 6).save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let error = Graph::load_on_cpu(&path, &shape.options()).expect_err(what);
        assert!(matches!(error, ContainerError::Damaged { .. }), "{what}: {error}");
    };
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            refused(&bytes, &format!("bit {bit} of byte {at}"));
        }
    }
    for len in 0..whole.len() {
        refused(&whole[..len], &format!("{len} bytes"));
    }
    refused(&[&whole[..], &[0]].concat(), "a byte too many");
    // Records that contradict each other, under good checksums.
    let record = |bytes: &mut [u8], change: Change| {
        let block = &mut bytes[40..];
        let end = block.len() - 4;
        change(&mut block[..end]);
        let sum = crc32c::crc32c(&block[..end]).to_le_bytes();
        block[end..].copy_from_slice(&sum);
    };
    let changes: [(&str, Change); 3] = [
        ("an edge twice", |block| block.copy_within(0..20, 20)),
        ("a loop", |block| block.copy_within(0..4, 4)),
        ("a vertex beyond the last", |block| block[4..8].copy_from_slice(&[0xfe; 4])),
    ];
    for (what, change) in changes {
        let mut bytes = whole.clone();
        record(&mut bytes, change);
        refused(&bytes, what);
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(Graph::load_on_cpu(&path, &shape.options()).unwrap().edge_count(), 4);
}

#[test]
fn a_file_of_something_else_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.graph");
    filled(Shape::of(0b01000), 10).save(&path).unwrap();
    // The same width, but times and not ids.
    let error = Graph::load_on_cpu(&path, &GraphOptions::default().times()).unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    assert!(error.to_string().contains("a Graph (directed, ids)"), "{error}");
    let error = Graph::load_on_cpu(&path, &GraphOptions::default()).unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    assert!(HashMap::<u64, u64>::load_on_cpu(&path, &HashMapOptions::default()).is_err());
    assert!(matches!(
        Graph::load_on_cpu(folder.path().join("missing"), &GraphOptions::default()),
        Err(ContainerError::Io { .. })
    ));
}
