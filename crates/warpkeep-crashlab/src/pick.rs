//! One of the many crashes that are possible at a boundary, in so compact a form that a hundred thousand can be
//! planned ahead.

use fastrand::Rng;

/// Chooses, for each thing at risk, how much of it survived. Choice 0 is the oldest state, the last the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Of all combinations, numbered through, this one.
    Number(u64),
    /// Nothing survived.
    Oldest,
    /// Everything survived.
    Newest,
    /// Everything of this thing, nothing of the others.
    Only(u32),
    /// Nothing of this thing, everything of the others.
    Without(u32),
    /// At random, by this seed.
    Random(u64),
}

impl Pick {
    /// Expands the choices, given their number for each thing.
    pub(crate) fn spell(self, counts: &[u32], choices: &mut Vec<u32>) {
        choices.clear();
        match self {
            Pick::Number(mut number) => choices.extend(counts.iter().map(|&count| {
                let choice = number % u64::from(count);
                number /= u64::from(count);
                choice as u32
            })),
            Pick::Oldest => choices.resize(counts.len(), 0),
            Pick::Newest => choices.extend(counts.iter().map(|count| count - 1)),
            Pick::Only(item) => {
                choices.resize(counts.len(), 0);
                choices[item as usize] = counts[item as usize] - 1;
            }
            Pick::Without(item) => {
                choices.extend(counts.iter().map(|count| count - 1));
                choices[item as usize] = 0;
            }
            Pick::Random(seed) => {
                let mut rng = Rng::with_seed(seed);
                // An even coin keeps about half of everything; most bugs need nearly all or nearly nothing.
                let (mut oldest, mut newest) = (rng.u32(..8), rng.u32(..8));
                if oldest + newest > 8 {
                    (oldest, newest) = (8 - oldest, 8 - newest);
                }
                choices.extend(counts.iter().map(|&count| match rng.u32(..8) {
                    roll if roll < oldest => 0,
                    roll if roll < oldest + newest => count - 1,
                    _ => rng.u32(..count),
                }));
            }
        }
    }
}

/// The number of combinations; `None` if it is too large to count.
fn combinations(counts: &[u32]) -> Option<u64> {
    counts.iter().try_fold(1u64, |product, &count| product.checked_mul(u64::from(count)))
}

/// Every combination if there are at most `limit`. Otherwise nothing, everything, each thing alone, each thing
/// missing (of more than `limit` things, some of them), and random ones: at least `limit` in all.
pub(crate) fn thorough(counts: &[u32], limit: usize, rng: &mut Rng) -> Vec<Pick> {
    if let Some(all) = combinations(counts).filter(|&all| all <= limit as u64) {
        return (0..all).map(Pick::Number).collect();
    }
    let mut items: Vec<u32> = (0..counts.len() as u32).collect();
    if items.len() > limit {
        rng.shuffle(&mut items);
        items.truncate(limit);
    }
    let mut picks = vec![Pick::Oldest, Pick::Newest];
    picks.extend(items.iter().flat_map(|&item| [Pick::Only(item), Pick::Without(item)]));
    let random = limit.saturating_sub(picks.len()).max(limit / 4);
    picks.extend((0..random).map(|_| Pick::Random(rng.u64(..))));
    picks
}

/// At most `limit` picks of any kind.
pub(crate) fn brief(counts: &[u32], limit: usize, rng: &mut Rng) -> Vec<Pick> {
    let mut picks = thorough(counts, limit, rng);
    if picks.len() > limit {
        rng.shuffle(&mut picks);
        picks.truncate(limit);
    }
    picks
}
