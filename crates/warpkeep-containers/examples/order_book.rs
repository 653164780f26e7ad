//! An order book: bids and asks by price and time, in batches of new orders, cancellations and questions.
//!
//! `cargo run -p warpkeep-containers --example order_book` uses the first GPU, or the simulator where there is none; with the
//! argument `cpu` it uses the CPU.

use std::error::Error;

use warpkeep_containers::{OrderedMap, OrderedMapOptions, OrderedOp, OrderedStatus};
use warpkeep_device::{Device, DeviceChoice};

/// The price in cents above, the sequence number of the order below: the first of a price comes first.
fn order(price: u64, sequence: u64) -> u64 {
    price << 32 | sequence
}

fn create() -> Result<OrderedMap<u64, u64>, Box<dyn Error>> {
    let options = OrderedMapOptions::default();
    if std::env::args().nth(1).as_deref() == Some("cpu") {
        return Ok(OrderedMap::on_cpu(&options));
    }
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim));
    Ok(OrderedMap::new(&device?, &options)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (bids, asks) = (create()?, create()?);
    let mut sequence = 0;
    let mut orders = |first: u64, levels: u64| -> Vec<(u64, u64)> {
        let each = (0..levels * 4).map(|i| {
            sequence += 1;
            (order(first + i / 4, sequence), 100 + i % 3 * 50)
        });
        each.collect()
    };
    // The value of an order is what is left of its quantity.
    for (book, orders) in [(&bids, orders(9_000, 1_000)), (&asks, orders(10_001, 1_000))] {
        let (keys, quantities): (Vec<u64>, Vec<u64>) = orders.into_iter().unzip();
        book.insert(&keys, &quantities)?;
    }
    let price = |pair: Option<(u64, u64)>| pair.map(|(key, _)| key >> 32);
    println!("best bid {:?}, best ask {:?}", price(bids.max()?), price(asks.min()?));
    assert_eq!((price(bids.max()?), price(asks.min()?)), (Some(9_999), Some(10_001)));

    // A batch in its order: the depth before, a cancellation of the best level, the depth and the best ask after it, and an order that is better.
    let depth = OrderedOp::range(order(10_001, 0), order(10_003, u32::MAX.into()));
    let best: Vec<u64> = asks.range(&[order(10_001, 0)], &[order(10_001, u32::MAX.into())], None)?.keys;
    let mut batch = vec![depth];
    batch.extend(best.iter().map(|key| OrderedOp::erase(*key)));
    batch.extend([
        depth,
        OrderedOp::successor(0),
        OrderedOp::put(order(10_000, 9_999), 30),
        OrderedOp::successor(0),
    ]);
    let answers = asks.apply(&batch)?;
    let quantity = |at: usize| answers[at].pairs.iter().map(|(_, quantity)| quantity).sum::<u64>();
    let after = 1 + best.len();
    println!("{} on three levels, {} when the first was cancelled", quantity(0), quantity(after));
    assert!(answers[1..after].iter().all(|answer| answer.status == OrderedStatus::Erased));
    assert_eq!((answers[after + 1].key >> 32, answers[after + 3].key >> 32), (10_002, 10_000));

    // The first five orders that a buyer of 400 meets, and where the order in the middle of the book is.
    let first = asks.range(&[0], &[u64::MAX], Some(5))?;
    println!("first: {:?} of {}", first.values, first.counts[0]);
    let middle = asks.nth(&[asks.len() / 2])?[0];
    println!("the middle of the asks is at {:?}", price(middle));
    assert_eq!(asks.rank(&[middle.map_or(0, |pair| pair.0)])?, [asks.len() / 2]);
    Ok(())
}
