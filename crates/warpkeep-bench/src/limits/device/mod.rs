//! The limits of a device and of the link to it.

mod calls;
mod gather;
mod memory;
mod rows;

use std::path::Path;

use warpkeep_device::{Device, DeviceChoice};

use self::calls::Calls;
use self::gather::Gather;
pub(crate) use self::memory::{AccessLimits, MemoryLimits};
pub(crate) use self::rows::Access;
use self::rows::Rows;
use super::{RATE, median};
use crate::report::{Report, Unit};
use crate::size::Size;
use crate::{Amount, BenchError, Progress};

/// Sizes of the elements gathered from device memory.
const GATHERED: [u32; 5] = [8, 16, 32, 64, 128];

/// How much memory, and how often it is touched in a round.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// Bytes of device memory.
    pub(crate) device_bytes: u64,
    /// Bytes of host memory, one case each.
    pub(crate) host_bytes: Vec<u64>,
    /// Accesses to device memory, at random over the link, and in order over the link.
    accesses: [u64; 3],
    /// Bytes that are copied at once.
    copied: usize,
    /// Launches in a row.
    launches: u32,
}

impl Extent {
    /// The amounts that a device handles in a moment.
    pub(crate) fn of(choice: DeviceChoice, device_bytes: u64, host_bytes: &[u64]) -> Extent {
        match choice {
            DeviceChoice::Cuda(_) => Extent {
                device_bytes,
                host_bytes: host_bytes.to_vec(),
                accesses: [1 << 27, 1 << 22, 1 << 24],
                copied: 256 << 20,
                launches: 1000,
            },
            // The simulator's figures mean nothing; the run only shows that it works.
            DeviceChoice::Cpu | DeviceChoice::Sim => Extent {
                device_bytes: device_bytes.min(1 << 20),
                host_bytes: vec![2 << 20],
                accesses: [1 << 12; 3],
                copied: 1 << 20,
                launches: 10,
            },
        }
    }
}

/// The limits of a device, in the median of the rounds.
#[derive(Clone, Debug)]
pub(crate) struct DeviceLimits {
    device: Vec<(Access, f64)>,
    link: Vec<(Access, f64)>,
    /// Bytes a second to the device and back.
    pub(crate) copy_in: f64,
    pub(crate) copy_out: f64,
    /// Rows of 128 bytes a second that the threads of the host copy, from anywhere in as much memory to an array;
    /// and the name of that limit.
    pub(crate) gathered: (String, f64),
    /// Bytes a second to the disk, where that matters; otherwise 0.
    pub(crate) disk: f64,
}

/// The prefix of a device's case names; figures of the simulator are marked as not a GPU's.
pub(crate) fn case_of(choice: DeviceChoice, what: &str) -> String {
    match choice {
        DeviceChoice::Sim => format!("limits of sim (simulated), {what}"),
        _ => format!("limits of {choice}, {what}"),
    }
}

/// What a reader has to know about the device.
pub(crate) fn note_of(device: &Device) -> String {
    match device.choice() {
        DeviceChoice::Sim => {
            "sim is a simulator: its figures show that everything runs, and nothing else".to_owned()
        }
        _ => format!("the device: {}", device.info()),
    }
}

impl DeviceLimits {
    /// Measures them; a file for the host's memory is made in `images`, and removed.
    pub(crate) fn measure(
        device: &Device,
        images: &Path,
        extent: &Extent,
        rounds: u32,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<DeviceLimits, BenchError> {
        let choice = device.choice();
        report.notes.push(note_of(device));
        let in_device =
            GATHERED.map(Access::RandomRead).into_iter().chain([Access::RandomSwap, Access::RandomWrite]);
        let over_link = [
            Access::RandomRead(32),
            Access::RandomRead(128),
            Access::OwnRead,
            Access::OrderedRead(128),
            Access::RandomWrite,
            Access::OwnWrite,
            Access::OrderedWrite,
        ];
        let total =
            u64::from(rounds) * (GATHERED.len() + 3 + over_link.len() * extent.host_bytes.len()) as u64;
        progress.begin(&format!("limits of {choice}"), Amount::Count(total));
        let mut round_by_round = |rows: &Rows, access: Access, count: u64, case: &str| {
            if !access.writes() {
                rows.check_reads(access, count)?;
            }
            // One run to flush the address caches.
            rows.run(access, count, u64::from(rounds))?;
            let mut rates = Vec::new();
            for round in 0..rounds {
                progress.check()?;
                let rate = rows.run(access, count, u64::from(round))?;
                report.add(case, &access.to_string(), round, RATE, Unit::PerSecond, rate);
                rates.push(rate);
                progress.advance(1);
            }
            Ok::<_, BenchError>((access, median(&rates)))
        };
        let rows = Rows::in_device(device, extent.device_bytes)?;
        let case = case_of(choice, &format!("device memory, {}", Size(rows.bytes())));
        let in_device = in_device
            .map(|access| round_by_round(&rows, access, extent.accesses[0], &case))
            .collect::<Result<Vec<_>, _>>()?;
        drop(rows);
        let accesses = |access: Access| extent.accesses[if access.is_ordered() { 2 } else { 1 }];
        let mut link = Vec::new();
        for &host_bytes in &extent.host_bytes {
            let rows = Rows::over_link(device, &images.join("link"), host_bytes)?;
            let case = case_of(choice, &format!("the link to {} of memory", Size(rows.bytes())));
            link = over_link
                .into_iter()
                .map(|access| round_by_round(&rows, access, accesses(access), &case))
                .collect::<Result<Vec<_>, _>>()?;
        }
        let gathered = {
            let bytes = extent.host_bytes.last().copied().unwrap_or(0);
            let gather = Gather::new(&images.join("gathered"), bytes)?;
            let (case, variant) = (case_of(choice, "host memory"), gather.name());
            let mut rates = Vec::new();
            for round in 0..rounds {
                progress.check()?;
                let rate = gather.rate(u64::from(round), extent.accesses[1]);
                report.add(&case, &variant, round, RATE, Unit::PerSecond, rate);
                rates.push(rate);
            }
            (variant, median(&rates))
        };
        let mut calls = Calls::new(device, extent.copied)?;
        let (copies, launches) = (case_of(choice, "copies"), case_of(choice, "launches"));
        let (mut ins, mut outs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            progress.check()?;
            ins.push(calls.copy_in()?);
            outs.push(calls.copy_out()?);
            for (variant, rates) in [("to the device", &ins), ("from the device", &outs)] {
                report.add(&copies, variant, round, RATE, Unit::BytesPerSecond, rates[round as usize]);
            }
            let (alone, in_a_row) = calls.launches(extent.launches)?;
            report.add(&launches, "an empty kernel, and waiting for it", round, "time", Unit::Micros, alone);
            report.add(&launches, "empty kernels in a row, each", round, "time", Unit::Micros, in_a_row);
            progress.advance(1);
        }
        progress.finish();
        let (copy_in, copy_out) = (median(&ins), median(&outs));
        Ok(DeviceLimits { device: in_device, link, copy_in, copy_out, gathered, disk: 0.0 })
    }

    /// Rows a second over the link, to the largest memory that was measured.
    pub(crate) fn link(&self, access: Access) -> f64 {
        rate_of(&self.link, access)
    }

    /// Rows a second from and to device memory.
    pub(crate) fn device(&self, access: Access) -> f64 {
        rate_of(&self.device, access)
    }
}

/// 0 if it was not measured.
fn rate_of(limits: &[(Access, f64)], access: Access) -> f64 {
    limits.iter().find(|limit| limit.0 == access).map_or(0.0, |limit| limit.1)
}
