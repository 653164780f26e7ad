//! A feed of timed edges with temporal sampling beside it: for each interaction a model would see the neighbourhoods of both ends as they were just before.
//!
//! `cargo run -p warpkeep-containers --example temporal_feed` uses the first GPU, the simulator where there is none, and the CPU if the argument is `cpu`.

use std::error::Error;

use warpkeep_containers::{Edge, Graph, GraphOptions, SampleOptions};
use warpkeep_device::{Device, DeviceChoice};

const USERS: u64 = 2000;
const BATCH: u64 = 500;

fn create() -> Result<Graph, Box<dyn Error>> {
    let options = GraphOptions::default().undirected().ids().times();
    if std::env::args().nth(1).as_deref() == Some("cpu") {
        return Ok(Graph::on_cpu(&options));
    }
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    Ok(Graph::new(&device, &options)?)
}

/// The interaction with this number. Some users take part in many.
fn interaction(number: u64) -> Edge {
    let random = |salt: u64| {
        let mixed = (number * 2 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
    };
    let (one, two) = (random(0) % USERS, random(1) % USERS);
    Edge::new((one * one / USERS) as u32, two as u32).id(number).time(number as i64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let graph = create()?;
    let mut sampled = 0;
    for batch in 0..20 {
        let arrived: Vec<Edge> = (batch * BATCH..(batch + 1) * BATCH).map(interaction).collect();
        // First the samples for what arrived: the last 10 partners of both ends, and the last 5 of each of those, all before the interaction itself and not older
        // than 5000. The graph holds nothing of the batch yet, and would not show it either.
        let seeds: Vec<u32> = arrived.iter().flat_map(|edge| [edge.source, edge.target]).collect();
        let times: Vec<i64> = arrived.iter().flat_map(|edge| [edge.time, edge.time]).collect();
        let options = SampleOptions::new(&[10, 5]).last().before().window(5000);
        let sample = graph.sample_at(&seeds, &times, &options)?;
        for (row, time) in sample.rows.iter().zip(&sample.times) {
            assert!(*time < times[sample.batch[*row as usize] as usize], "an edge of the future");
        }
        sampled += sample.rows.len();
        graph.insert_edges(&arrived)?;
        // Interactions that are older than 8000 are forgotten.
        let old = graph.edges()?.into_iter().filter(|edge| edge.time < arrived[0].time - 8000);
        let old: Vec<(u32, u32)> = old.map(|edge| (edge.source, edge.target)).collect();
        graph.delete_edges(&old)?;
    }
    graph.verify()?;
    let stats = graph.stats();
    println!("{sampled} edges sampled; {} edges of {} vertices are left", stats.edges, stats.vertices);
    Ok(())
}
