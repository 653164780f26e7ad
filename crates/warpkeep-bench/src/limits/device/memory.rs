//! Device memory by itself: random reads of it, and copies within it.

use warpkeep_device::{Buffer, Device, DeviceChoice, Event, Stream};

use super::super::{RATE, median};
use super::rows::Rows;
use super::{Access, Extent, case_of, rate_of};
use crate::report::{Report, Unit};
use crate::size::Size;
use crate::{BenchError, Progress};

/// Bytes that copies of a GPU move in a round at least: a single copy of little memory measures its launch.
const MOVED: u64 = 4 << 30;
/// Copies in a row at the most.
const MOST_COPIES: u64 = 1000;
/// What source and target hold before a copy.
const PATTERN: [u8; 2] = [0x5a, 0xa5];
/// Bytes at both ends that are checked after a copy.
const CHECKED: usize = 4096;

/// The limits of some device memory, in the median of the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryLimits {
    /// Reads of 64 bytes a second, anywhere in it.
    pub(crate) random_reads: f64,
    /// Bytes a second that copies move, those read and those written.
    pub(crate) copied: f64,
}

impl MemoryLimits {
    /// Measures them in about `bytes` bytes: less memory is faster where the caches of the device hold it.
    pub(crate) fn measure(
        device: &Device,
        bytes: u64,
        rounds: u32,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<MemoryLimits, BenchError> {
        let access = Access::RandomRead(64);
        let reads = AccessLimits::measure(device, bytes, &[access], rounds, progress, report)?;
        let copies = Copies::new(device, reads.bytes)?;
        let case = case_of(device.choice(), &format!("device memory, {}", Size(reads.bytes)));
        let mut moved = Vec::new();
        for round in 0..rounds {
            progress.check()?;
            let rate = copies.run()?;
            report.add(&case, "copies, read and written", round, RATE, Unit::BytesPerSecond, rate);
            moved.push(rate);
        }
        Ok(MemoryLimits { random_reads: reads.rate(access), copied: median(&moved) })
    }
}

/// Accesses a second to some device memory, in the median of the rounds.
#[derive(Clone, Debug)]
pub(crate) struct AccessLimits {
    /// The bytes of that memory.
    bytes: u64,
    rates: Vec<(Access, f64)>,
}

impl AccessLimits {
    /// Measures them in about `bytes` bytes. No access may write.
    pub(crate) fn measure(
        device: &Device,
        bytes: u64,
        accesses: &[Access],
        rounds: u32,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<AccessLimits, BenchError> {
        let choice = device.choice();
        let extent = Extent::of(choice, bytes, &[]);
        let count = extent.accesses[0];
        let rows = Rows::in_device(device, extent.device_bytes)?;
        let case = case_of(choice, &format!("device memory, {}", Size(rows.bytes())));
        let mut limits = AccessLimits { bytes: rows.bytes(), rates: Vec::new() };
        for &access in accesses {
            rows.check_reads(access, count)?;
            // One run to flush the address caches.
            rows.run(access, count, u64::from(rounds))?;
            let mut rates = Vec::new();
            for round in 0..rounds {
                progress.check()?;
                let rate = rows.run(access, count, u64::from(round))?;
                report.add(&case, &access.to_string(), round, RATE, Unit::PerSecond, rate);
                rates.push(rate);
            }
            limits.rates.push((access, median(&rates)));
        }
        Ok(limits)
    }

    /// Accesses a second; 0 if they were not measured.
    pub(crate) fn rate(&self, access: Access) -> f64 {
        rate_of(&self.rates, access)
    }
}

/// Two halves of some memory, of which one is copied to the other.
struct Copies {
    from: Buffer,
    to: Buffer,
    times: u64,
    stream: Stream,
    between: (Event, Event),
}

impl Copies {
    fn new(device: &Device, bytes: u64) -> Result<Copies, BenchError> {
        let half = (bytes / 2).max(64);
        let times = match device.choice() {
            DeviceChoice::Cuda(_) => (MOVED / (2 * half)).clamp(1, MOST_COPIES),
            DeviceChoice::Cpu | DeviceChoice::Sim => 1,
        };
        let copies = Copies {
            from: device.allocate(half as usize)?,
            to: device.allocate(half as usize)?,
            times,
            stream: device.stream()?,
            between: (device.event()?, device.event()?),
        };
        copies.run()?;
        Ok(copies)
    }

    /// Bytes a second, those read and those written.
    fn run(&self) -> Result<f64, BenchError> {
        let len = self.from.len();
        self.from.fill(PATTERN[0])?;
        self.to.fill(PATTERN[1])?;
        self.between.0.record(&self.stream)?;
        for _ in 0..self.times {
            self.to.copy_from_on(0, &self.from, 0, len, &self.stream)?;
        }
        self.between.1.record(&self.stream)?;
        self.stream.synchronize()?;
        let took = self.between.1.elapsed_since(&self.between.0)?;
        let mut end = vec![0_u8; len.min(CHECKED)];
        for offset in [0, len - end.len()] {
            self.to.read(offset, &mut end)?;
            if end.iter().any(|&byte| byte != PATTERN[0]) {
                return Err(BenchError::Wrong(
                    "a copy within device memory is not like its source".to_owned(),
                ));
            }
        }
        Ok((2 * self.times * len as u64) as f64 / took.as_secs_f64().max(1e-9))
    }
}
