//! The core workloads of YCSB: several kinds of operation at once. E scans, which a hash table does not.

use super::Dice;

/// The action on one item of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Its value is read.
    Get,
    /// It is given a value, whether it is there or not.
    Put,
    /// Its value is read, and it is given one made from that.
    Modify,
}

/// Shares of operations, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    name: &'static str,
    gets: u8,
    updates: u8,
    inserts: u8,
    modifies: u8,
    /// Whether it always requests the newest items.
    latest: bool,
}

impl Mix {
    /// Half gets, half updates.
    pub const A: Mix = Mix::of("YCSB A", 50, 50, 0, 0);
    /// Mostly gets, a few updates.
    pub const B: Mix = Mix::of("YCSB B", 95, 5, 0, 0);
    /// Gets alone.
    pub const C: Mix = Mix::of("YCSB C", 100, 0, 0, 0);
    /// Gets of the items inserted last, and a few inserts.
    pub const D: Mix = Mix { latest: true, ..Mix::of("YCSB D", 95, 0, 5, 0) };
    /// Half gets, half reads that are followed by a write of the modified value.
    pub const F: Mix = Mix::of("YCSB F", 50, 0, 0, 50);
    /// All of them.
    pub const ALL: [Mix; 5] = [Mix::A, Mix::B, Mix::C, Mix::D, Mix::F];

    const fn of(name: &'static str, gets: u8, updates: u8, inserts: u8, modifies: u8) -> Mix {
        Mix { name, gets, updates, inserts, modifies, latest: false }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether it only reads.
    pub fn only_reads(self) -> bool {
        self.gets == 100
    }

    /// Whether it adds items.
    pub fn inserts(self) -> bool {
        self.inserts > 0
    }

    /// Whether it requests the newest items.
    pub fn asks_latest(self) -> bool {
        self.latest
    }

    /// The share of operations that write, of 1.
    pub fn write_share(self) -> f64 {
        f64::from(100 - self.gets) / 100.0
    }

    /// Draws the next action.
    #[inline]
    pub fn draw(self, dice: &mut Dice) -> Action {
        let throw = dice.below(100) as u8;
        match throw {
            throw if throw < self.gets => Action::Get,
            throw if throw < self.gets + self.updates + self.inserts => Action::Put,
            _ => Action::Modify,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fit;

    #[test]
    fn shares_are_as_written() {
        for mix in Mix::ALL {
            assert_eq!(mix.gets + mix.updates + mix.inserts + mix.modifies, 100, "{}", mix.name);
            let mut dice = Dice::new(2, 1);
            let mut counts = [0; 3];
            for _ in 0..100_000 {
                counts[mix.draw(&mut dice) as usize] += 1;
            }
            let law = [mix.gets, mix.updates + mix.inserts, mix.modifies].map(f64::from);
            // An empty share has no cell to be judged.
            let there: Vec<usize> = (0..3).filter(|&cell| law[cell] > 0.0).collect();
            let (seen, due): (Vec<u64>, Vec<f64>) =
                there.iter().map(|&cell| (counts[cell], law[cell])).unzip();
            assert_eq!(seen.iter().sum::<u64>(), 100_000, "{}", mix.name);
            assert!(seen.len() == 1 || fit::chi_square(&seen, &due) < 4.0, "{}: {counts:?}", mix.name);
        }
    }
}
