//! An as-of join: for each trade the last quote of its symbol that was made at the time of the trade or up to five seconds before.
//!
//! `cargo run -p warpkeep-containers --example as_of_join` uses the first GPU, or the simulator where there is none; with the
//! argument `cpu` it uses the CPU.

use std::error::Error;

use warpkeep_containers::{Near, OrderedMap, OrderedMapOptions};
use warpkeep_device::{Device, DeviceChoice};

/// Bits of a key that are the time, in microseconds of the day; those above are the symbol.
const TIME_BITS: u32 = 40;
const FIVE_SECONDS: u64 = 5_000_000;

fn key(symbol: u64, time: u64) -> u64 {
    symbol << TIME_BITS | time
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
    let quotes = create()?;
    // Quotes of 100 symbols, one each in a second or two, in the order in which they arrive: by time, and not by key.
    let mut keys = Vec::new();
    let mut prices = Vec::new();
    for second in 0..200_u64 {
        for symbol in (second % 2..100).step_by(2) {
            keys.push(key(symbol, second * 1_000_000 + symbol));
            prices.push(10_000 + 10 * symbol + second % 7);
        }
    }
    quotes.insert(&keys, &prices)?;

    let trades = [key(7, 50_000_000), key(8, 50_000_000), key(8, 3), key(99, 400_000_000), key(200, 7)];
    let as_of = Near::or_equal().within(FIVE_SECONDS).in_group(TIME_BITS);
    for (trade, quote) in trades.iter().zip(quotes.predecessor(&trades, as_of)?) {
        let (symbol, time) = (trade >> TIME_BITS, trade & ((1 << TIME_BITS) - 1));
        match quote {
            Some((at, price)) => println!("{symbol} at {time}: {price}, quoted {} us before", trade - at),
            None => println!("{symbol} at {time}: no quote"),
        }
    }
    let found = quotes.predecessor(&trades, as_of)?;
    assert_eq!(found[0], Some((key(7, 49_000_007), 10_070)));
    // The quote of symbol 8 that was made next is not one of symbol 7, though its key is near; nor is one too old.
    assert_eq!((found[2], found[3], found[4]), (None, None, None));

    // Quotes that arrive late count from then on. The table of a report is one state, whatever arrives meanwhile.
    let report = quotes.snapshot();
    quotes.insert(&[key(8, 2)], &[77])?;
    assert_eq!(quotes.predecessor(&[key(8, 3)], as_of)?, [Some((key(8, 2), 77))]);
    assert_eq!(report.predecessor(&[key(8, 3)], as_of)?, [None]);

    // All quotes of symbol 8 in the second minute.
    let minute = quotes.range(&[key(8, 60_000_000)], &[key(8, 119_999_999)], None)?;
    println!("{} quotes in a minute, the first at {}", minute.counts[0], minute.values[0]);
    println!("{:?}", quotes.stats()?);
    Ok(())
}
