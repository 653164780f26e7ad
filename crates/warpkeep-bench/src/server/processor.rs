//! Processor time, as the system counts it: in hundredths of a second.

/// Seconds that this thread took so far; 0 where the system does not report it.
pub(super) fn of_thread() -> f64 {
    seconds_in("/proc/thread-self/stat")
}

/// Seconds that a process took so far; 0 where the system does not report it.
pub(super) fn of_process(id: u32) -> f64 {
    seconds_in(&format!("/proc/{id}/stat"))
}

fn seconds_in(path: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    ticks(&text).unwrap_or(0) as f64 / rustix::param::clock_ticks_per_second().max(1) as f64
}

/// Fields 14 and 15, counted from behind the name, which may have anything in it.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_together() {
        assert_eq!(ticks("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 9"), Some(42));
        assert_eq!(ticks("nonsense"), None);
        assert!(of_process(std::process::id()) >= 0.0 && of_thread() >= 0.0);
    }
}
