//! Everything that contestants can be given to do.

use std::str::FromStr;

use super::{DEFAULT_THETA, Distribution, Mix, Task};

/// A workload by kind, independent of the form of its keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One kind of operation.
    Task(Task),
    /// Several at once.
    Mix(Mix),
    /// All items into an empty store.
    Load,
    /// Lookups like those of a recommendation model.
    Dlrm,
    /// Reads and updates like those of PageRank.
    PageRank,
}

impl Work {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Work::Task(task) => task.name(),
            Work::Mix(mix) => mix.name(),
            Work::Load => "YCSB LOAD",
            Work::Dlrm => "DLRM",
            Work::PageRank => "PageRank",
        }
    }

    /// How its items are drawn, given the requested distribution: by default single operations are uniform and
    /// mixes follow Zipf's law; workloads of the newest items always get them.
    pub fn distribution(self, asked: Option<Distribution>) -> Distribution {
        match self {
            Work::Task(_) => asked.unwrap_or(Distribution::Uniform),
            Work::Mix(mix) if mix.asks_latest() => {
                Distribution::Latest(asked.map_or(DEFAULT_THETA, Distribution::theta))
            }
            Work::Dlrm => Distribution::Zipfian(asked.map_or(DEFAULT_THETA, Distribution::theta)),
            Work::Mix(_) | Work::Load | Work::PageRank => {
                asked.unwrap_or(Distribution::Zipfian(DEFAULT_THETA))
            }
        }
    }

    /// Whether it changes nothing.
    pub fn only_reads(self) -> bool {
        match self {
            Work::Task(task) => matches!(task, Task::Hit | Task::Miss),
            Work::Mix(mix) => mix.only_reads(),
            Work::Load | Work::PageRank => false,
            Work::Dlrm => true,
        }
    }

    /// The share of its operations that write, of 1.
    pub fn write_share(self) -> f64 {
        match self {
            Work::Mix(mix) => mix.write_share(),
            // One update to about sixteen reads.
            Work::PageRank => 1.0 / 17.0,
            work => f64::from(u8::from(!work.only_reads())),
        }
    }
}

/// Some of them, by a word: `micro` for the five kinds of operation, one of `get`, `miss`, `update`, `insert` and `delete`, `ycsb`
/// for its six workloads, one of `a`, `b`, `c`, `d`, `f` and `load`, `dlrm`, `pagerank`, or `all`.
///
/// ```
/// use warpkeep_bench::workload::{Mix, Work, WorkSet};
///
/// assert_eq!("a".parse::<WorkSet>().map(|set| set.0), Ok(vec![Work::Mix(Mix::A)]));
/// assert_eq!("all".parse::<WorkSet>().expect("a word").0.len(), 13);
/// assert!("e".parse::<WorkSet>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkSet(pub Vec<Work>);

impl FromStr for WorkSet {
    type Err = String;

    fn from_str(word: &str) -> Result<WorkSet, String> {
        let micro = || Task::ALL.map(Work::Task).to_vec();
        let ycsb = || std::iter::once(Work::Load).chain(Mix::ALL.map(Work::Mix)).collect::<Vec<_>>();
        let real = || vec![Work::Dlrm, Work::PageRank];
        Ok(WorkSet(match word {
            "micro" => micro(),
            "ycsb" => ycsb(),
            "all" => [micro(), ycsb(), real()].concat(),
            "get" => vec![Work::Task(Task::Hit)],
            "miss" => vec![Work::Task(Task::Miss)],
            "update" => vec![Work::Task(Task::Update)],
            "insert" => vec![Work::Task(Task::Insert)],
            "delete" => vec![Work::Task(Task::Delete)],
            "a" => vec![Work::Mix(Mix::A)],
            "b" => vec![Work::Mix(Mix::B)],
            "c" => vec![Work::Mix(Mix::C)],
            "d" => vec![Work::Mix(Mix::D)],
            "f" => vec![Work::Mix(Mix::F)],
            "load" => vec![Work::Load],
            "dlrm" => vec![Work::Dlrm],
            "pagerank" => vec![Work::PageRank],
            _ => {
                return Err(format!(
                    "`{word}` is no workload; there are micro (get, miss, update, insert, delete), ycsb (load, a, b, c, d, f), \
                     dlrm, pagerank, and all"
                ));
            }
        }))
    }
}
