//! The machine of a measurement.

use std::path::{Path, PathBuf};

use serde::Serialize;
use warpkeep_image::{ImageError, Medium, Placement};

/// The machine, as far as results depend on it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// Processes ready to run, on average over the last minute, when the benchmark began: above the number of
    /// cores, other processes interfered.
    pub load_before: f64,
    /// The same at its end; `None` while it runs.
    pub load_after: Option<f64>,
    /// The directories that were used.
    pub places: Vec<Place>,
}

/// A directory that was used, and its medium.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Its purpose.
    pub purpose: String,
    /// The directory as it was given.
    pub path: PathBuf,
    /// The file system by name.
    pub file_system: String,
    /// The kind of memory or storage.
    pub medium: Medium,
}

impl Machine {
    /// This machine, now.
    pub fn describe() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (cpuinfo, meminfo) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let cpu = ["model name", "CPU part", "Processor"].iter().find_map(|name| field(&cpuinfo, name));
        let memory_kib = field(&meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
        Machine {
            cpu: cpu.unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0_u64).saturating_mul(1024),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: load_average(),
            load_after: None,
            places: Vec::new(),
        }
    }

    /// Notes a directory.
    pub fn add_place(&mut self, purpose: &str, path: &Path) -> Result<(), ImageError> {
        let placement = placement_in(path)?;
        self.places.push(Place {
            purpose: purpose.to_owned(),
            path: path.to_path_buf(),
            file_system: placement.file_system,
            medium: placement.medium,
        });
        Ok(())
    }
}

/// The placement of files in a directory.
pub fn placement_in(directory: &Path) -> Result<Placement, ImageError> {
    Placement::of(&directory.join("warpkeep.image"))
}

/// Processes ready to run, on average over the last minute.
pub fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Watches how much processor time other processes take. With few cores, other work slows the variant with the
/// fewest threads the most, and a comparison then measures the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    begun: Option<Ticks>,
}

/// Clock ticks since some moment: of all processors, busy ones, and those of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    busy: u64,
    own: u64,
}

impl Others {
    /// Watches from now on.
    pub fn watch() -> Others {
        Others { begun: Ticks::now() }
    }

    /// The share of all processor time that other processes took since; 0 where the system does not report it.
    pub fn share(&self) -> f64 {
        self.begun.zip(Ticks::now()).map_or(0.0, |(begun, now)| begun.others_until(now))
    }
}

impl Ticks {
    fn now() -> Option<Ticks> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        Ticks::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// The first line of `/proc/stat`, and fields 14 and 15 of a process's own.
    fn parse(stat: &str, own: &str) -> Option<Ticks> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; the guests' times after that are in `user` already.
        let fields: Vec<u64> =
            line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let all: u64 = fields.iter().sum();
        let idle = fields.get(3)? + fields.get(4)?;
        let mut after_name = own.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut next = || after_name.next()?.parse::<u64>().ok();
        Some(Ticks { all, busy: all - idle, own: next()? + next()? })
    }

    fn others_until(self, now: Ticks) -> f64 {
        let since = |then: u64, now: u64| now.saturating_sub(then);
        let others = since(self.busy, now.busy).saturating_sub(since(self.own, now.own));
        others as f64 / since(self.all, now.all).max(1) as f64
    }
}

/// `name   : value` in the text of a file of `/proc`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    text.lines().find_map(value).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: A CPU\nMemTotal:       24 kB\n";
        assert_eq!(field(text, "model name"), Some("A CPU"));
        assert_eq!(field(text, "model"), Some("1"));
        assert_eq!(field(text, "MemTotal"), Some("24 kB"));
        assert_eq!(field(text, "Mem"), None);
    }

    #[test]
    fn what_others_take_is_what_is_left_over() {
        let own = |user: u64| format!("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 {user} 5 0 0 20 0 1 0 9");
        let then = Ticks::parse("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1\n", &own(10)).expect("ticks");
        assert_eq!(then, Ticks { all: 1000, busy: 160, own: 15 });
        let now = Ticks::parse("cpu  300 0 50 1200 40 5 5 0 0 0\n", &own(110)).expect("ticks");
        assert!((then.others_until(now) - 100.0 / 600.0).abs() < 1e-9);
        assert_eq!(Ticks::parse("intr 1", &own(1)), None);
        assert!((0.0..=1.0).contains(&Others::watch().share()));
    }

    #[test]
    fn this_machine_has_something() {
        let mut machine = Machine::describe();
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20 && !machine.kernel.is_empty());
        let directory = tempfile::tempdir().expect("a directory");
        machine.add_place("log", directory.path()).expect("a file system");
        assert!(!machine.places[0].file_system.is_empty());
    }
}
