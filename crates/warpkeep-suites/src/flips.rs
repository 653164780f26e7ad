//! Bit flips in an image with a table: every item read is right, or is reported as damaged.

use std::collections::BTreeMap;

use warpkeep_image::Persist;
use warpkeep_record::Kept;

type Items = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

/// The results of many flips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    /// Bits that were flipped, one at a time.
    pub flips: u64,
    /// Of them, those after which an item was reported as damaged.
    pub told: u64,
    /// Of them, those that made an item disappear without a report: its slot no longer indicates an item.
    pub gone: u64,
}

/// Flips `flips` bits of the nonzero words of an image, one at a time, and reads all items each time. No item of
/// the table was changed or removed, and no other thread uses it.
///
/// # Panics
/// If a read returns an item that differs from the stored one.
pub fn no_flip_gives_out_another_item<P: Persist, T: Kept<P>>(table: &T, flips: u64) -> Flips {
    let image = table.heap().image();
    let (good, damaged) = look(table);
    assert_eq!((good.len() as u64, damaged), (table.len(), 0));
    let chunk = image.chunk_size();
    let words: Vec<u64> = (chunk..image.len()).step_by(8).filter(|&at| image.load(at) != 0).collect();
    let mut came = Flips { flips, ..Flips::default() };
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..flips {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let (at, bit) = (words[(dice >> 6) as usize % words.len()], dice % 64);
        let word = image.load(at);
        image.store(at, word ^ 1 << bit);
        let (found, damaged) = look(table);
        image.store(at, word);
        for (key, item) in &found {
            assert_eq!(good.get(key), Some(item), "bit {bit} of the word at {at}: another item is given out");
        }
        came.told += u64::from(damaged > 0);
        came.gone += u64::from(damaged == 0 && found.len() < good.len());
    }
    came
}

/// The items that a table returns, and how many it reports as damaged.
fn look<P: Persist, T: Kept<P>>(table: &T) -> (Items, u64) {
    let (mut items, mut damaged) = (Items::new(), 0);
    let looked = table.scan_checked::<std::convert::Infallible>(1, |item| {
        match item {
            Ok(change) => drop(items.insert(change.key.to_vec(), (change.version, change.value.to_vec()))),
            Err(_) => damaged += 1,
        }
        Ok(())
    });
    match looked {
        Ok(()) => (items, damaged),
        Err(never) => match never {},
    }
}
