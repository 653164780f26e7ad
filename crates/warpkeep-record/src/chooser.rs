//! Which of several ways is the fastest, found out while they are used.

/// Times until a way is known; the first has to get memory and does not count.
const TRIES: u64 = 3;
/// Another way must be that much faster to be taken: what differs less may differ the other way next time.
const BETTER: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// How long it took lately.
    nanos: f64,
    times: u64,
    /// The choice after which it was last measured.
    last: u64,
}

/// Chooses among `N` ways to do the same by how long they took lately.
///
/// ```
/// use warpkeep_record::Chooser;
///
/// let mut chooser = Chooser::<2>::default();
/// for _ in 0..100 {
///     let way = chooser.choose([true; 2]);
///     chooser.note(way, [80.0, 50.0][way]);
/// }
/// assert_eq!(chooser.chosen(), Some(1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chooser<const N: usize> {
    /// Choices so far.
    seen: u64,
    chosen: Option<usize>,
    ways: [Known; N],
}

impl<const N: usize> Default for Chooser<N> {
    fn default() -> Chooser<N> {
        Chooser { seen: 0, chosen: None, ways: [Known::default(); N] }
    }
}

impl<const N: usize> Chooser<N> {
    /// The way to go next, of those that are open: the fastest; but all are tried at first, and again now and then, the more seldom the
    /// slower they are. The first way, if none is open.
    pub fn choose(&mut self, open: [bool; N]) -> usize {
        self.seen += 1;
        let open = || (0..N).filter(move |&way| open[way]);
        let ways = &self.ways;
        let new = open().filter(|&way| ways[way].times < TRIES).min_by_key(|&way| ways[way].times);
        if let Some(way) = new {
            return way;
        }
        let fastest = open().min_by(|&one, &other| ways[one].nanos.total_cmp(&ways[other].nanos));
        let Some(fastest) = fastest else { return 0 };
        let chosen = match self.chosen.filter(|&chosen| open().any(|way| way == chosen)) {
            Some(chosen) if ways[fastest].nanos >= BETTER * ways[chosen].nanos => chosen,
            _ => fastest,
        };
        let due = |way: &usize| {
            // So seldom that it costs less than a hundredth, unless it is forty times as slow. If what is chosen becomes slower, that is seen without trying.
            let patience = match ways[*way].nanos / ways[chosen].nanos.max(1e-3) {
                slower if slower < 1.2 => 32,
                slower if slower < 2.0 => 256,
                slower if slower < 4.0 => 1024,
                _ => 4096,
            };
            self.seen - ways[*way].last >= patience
        };
        let others = open().filter(|&way| way != chosen).filter(due);
        let taken = others.min_by_key(|&way| ways[way].last).unwrap_or(chosen);
        self.chosen = Some(chosen);
        taken
    }

    /// It took so long this way.
    pub fn note(&mut self, way: usize, nanos: f64) {
        let known = &mut self.ways[way];
        known.times += 1;
        known.last = self.seen;
        known.nanos = match known.times {
            1 | 2 => nanos,
            // What is tried seldom has to be believed sooner.
            _ if self.chosen == Some(way) => known.nanos + (nanos - known.nanos) / 8.0,
            _ => (known.nanos + nanos) / 2.0,
        };
    }

    /// The way that is taken, if all were tried.
    pub fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    /// How long a way took lately, and how often it was measured.
    pub fn known(&self, way: usize) -> (f64, u64) {
        (self.ways[way].nanos, self.ways[way].times)
    }

    /// Choices so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [bool; 3] = [true; 3];

    /// Goes so many times, each way taking so long; how often it went each way.
    fn run(chooser: &mut Chooser<3>, open: [bool; 3], times: usize, nanos: [f64; 3]) -> [usize; 3] {
        let mut went = [0; 3];
        for _ in 0..times {
            let way = chooser.choose(open);
            chooser.note(way, nanos[way]);
            went[way] += 1;
        }
        went
    }

    #[test]
    fn all_are_tried_and_the_fastest_is_taken() {
        for fastest in 0..3 {
            let (mut chooser, mut nanos) = (Chooser::default(), [100.0; 3]);
            nanos[fastest] = 50.0;
            let went = run(&mut chooser, ALL, 1000, nanos);
            assert!(went[fastest] > 900 && went.iter().all(|&times| times >= 3), "{went:?}");
            assert_eq!(chooser.chosen(), Some(fastest));
        }
    }

    #[test]
    fn what_differs_little_changes_nothing_and_what_became_faster_is_taken() {
        let mut chooser = Chooser::default();
        run(&mut chooser, ALL, 100, [50.0, 80.0, 100.0]);
        run(&mut chooser, ALL, 1000, [50.0, 47.0, 100.0]);
        assert_eq!(chooser.chosen(), Some(0), "six per cent are not worth it");
        run(&mut chooser, ALL, 1000, [50.0, 80.0, 10.0]);
        assert_eq!(chooser.chosen(), Some(2));
        // A machine that is busy with something else takes longer whichever way.
        run(&mut chooser, ALL, 300, [500.0, 800.0, 100.0]);
        assert_eq!(chooser.chosen(), Some(2));
        run(&mut chooser, ALL, 3000, [50.0, 80.0, 400.0]);
        assert_eq!(chooser.chosen(), Some(0));
    }

    #[test]
    fn much_slower_ones_are_seldom_tried() {
        let went = run(&mut Chooser::default(), ALL, 4000, [10.0, 1000.0, 15.0]);
        assert!(went[1] <= 5 && (10..40).contains(&went[2]), "{went:?}");
    }

    #[test]
    fn what_is_closed_is_not_taken() {
        let mut chooser = Chooser::default();
        let (two, nanos) = ([true, false, true], [50.0, 1.0, 80.0]);
        assert_eq!(run(&mut chooser, two, 200, nanos)[1], 0);
        run(&mut chooser, ALL, 200, nanos);
        assert_eq!(chooser.chosen(), Some(1));
        assert_eq!(run(&mut chooser, two, 200, nanos)[1], 0);
        assert_eq!(chooser.chosen(), Some(0));
        assert_eq!(run(&mut chooser, [false; 3], 1, nanos), [1, 0, 0]);
    }
}
