//! `warpkeep info`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use warpkeep::DeviceProfile;
use warpkeep_bench::size::Size;
use warpkeep_image::Placement;

use crate::failure::Failure;
use crate::output::Format;

/// The place to report on.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// Where the image of a store would lie: a file, or a directory for it. Without it, the usual places are shown.
    path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    places: Vec<Placement>,
    huge_pages: HugePages,
    limits: Limits,
    flush_instruction: Option<&'static str>,
    devices: Vec<Device>,
}

/// A device for tables.
#[derive(Debug, Serialize)]
struct Device {
    choice: String,
    name: String,
    /// Why it cannot be used.
    unavailable: Option<String>,
    memory_bytes: u64,
    multiprocessors: u32,
    /// Compute capability.
    architecture: Option<String>,
    profile: Option<Profile>,
}

/// The thresholds by which a GPU does batches.
#[derive(Debug, Serialize)]
struct Profile {
    /// The file that overrides the usual values.
    file: Option<PathBuf>,
    /// A line for each threshold.
    thresholds: Vec<String>,
}

/// The kernel's settings.
#[derive(Debug, Serialize)]
struct HugePages {
    transparent: Option<String>,
    tmpfs: Option<String>,
    reserved: Option<u64>,
}

/// `None` is no limit.
#[derive(Debug, Serialize)]
struct Limits {
    locked_memory_bytes: Option<u64>,
    address_space_bytes: Option<u64>,
    file_bytes: Option<u64>,
}

impl Info {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let places = match &self.path {
            Some(path) => vec![placement(path)?],
            None => ["/dev/shm", "."].iter().filter_map(|path| placement(Path::new(path)).ok()).collect(),
        };
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            places,
            huge_pages: HugePages {
                transparent: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
                tmpfs: chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
                reserved: reserved_huge_pages(),
            },
            limits: Limits {
                locked_memory_bytes: getrlimit(Resource::Memlock).current,
                address_space_bytes: getrlimit(Resource::As).current,
                file_bytes: getrlimit(Resource::Fsize).current,
            },
            flush_instruction: flush_instruction(),
            devices: devices()?,
        };
        self.format.show(&report, || text(&report))
    }
}

fn profile_of(info: &warpkeep::DeviceInfo) -> Result<Option<Profile>, Failure> {
    if !matches!(info.choice, warpkeep::DeviceChoice::Cuda(_)) || info.unavailable.is_some() {
        return Ok(None);
    }
    let profile = DeviceProfile::of(info).map_err(warpkeep::Error::from)?;
    let thresholds = profile.to_string().lines().map(str::to_owned).collect();
    Ok(Some(Profile { file: DeviceProfile::file_of(&info.name), thresholds }))
}

fn devices() -> Result<Vec<Device>, Failure> {
    let device = |info: warpkeep::DeviceInfo| {
        Ok(Device {
            profile: profile_of(&info)?,
            choice: info.choice.to_string(),
            name: info.name,
            unavailable: info.unavailable,
            memory_bytes: info.abilities.memory_bytes,
            multiprocessors: info.abilities.multiprocessors,
            architecture: info.abilities.arch.map(|arch| arch.to_string()),
        })
    };
    warpkeep::devices().into_iter().map(device).collect()
}

/// Of a file, or of a file in a directory.
fn placement(path: &Path) -> Result<Placement, Failure> {
    let file = if path.is_dir() { path.join("warpkeep.image") } else { path.to_path_buf() };
    Ok(Placement::of(&file)?)
}

/// `always [madvise] never`
fn chosen(setting: &str) -> Option<String> {
    let text = std::fs::read_to_string(setting).ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn reserved_huge_pages() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/nr_hugepages").ok()?.trim().parse().ok()
}

#[cfg(target_arch = "x86_64")]
fn flush_instruction() -> Option<&'static str> {
    warpkeep_image::WriteBack::detect().map(|domain| domain.instruction())
}

#[cfg(not(target_arch = "x86_64"))]
fn flush_instruction() -> Option<&'static str> {
    None
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for place in &report.places {
        let _ = writeln!(text, "{place}");
    }
    let limit =
        |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |bytes| Size(bytes).to_string());
    let setting = |setting: &Option<String>| setting.clone().unwrap_or_else(|| "unknown".to_owned());
    let HugePages { transparent, tmpfs, reserved } = &report.huge_pages;
    let Limits { locked_memory_bytes, address_space_bytes, file_bytes } = report.limits;
    let _ = writeln!(
        text,
        "huge pages: {} for memory, {} for tmpfs (images ask for them themselves), {} reserved",
        setting(transparent),
        setting(tmpfs),
        reserved.unwrap_or(0)
    );
    let _ = writeln!(
        text,
        "limits: locked memory {}, address space {}, file length {}",
        limit(locked_memory_bytes),
        limit(address_space_bytes),
        limit(file_bytes)
    );
    let _ = match report.flush_instruction {
        Some(instruction) => writeln!(text, "persistent memory would be flushed with {instruction}"),
        None => writeln!(text, "persistent memory is not supported on this processor"),
    };
    for device in &report.devices {
        let Device { choice, name, unavailable, memory_bytes, multiprocessors, architecture, profile } =
            device;
        let _ = write!(text, "device {choice}: {name}");
        let _ = match (unavailable, architecture) {
            (Some(why), _) => writeln!(text, "; cannot be used: {why}"),
            (None, Some(architecture)) => {
                writeln!(text, ", {architecture}, {multiprocessors} multiprocessors, {}", Size(*memory_bytes))
            }
            (None, None) => writeln!(text),
        };
        if let Some(Profile { file, thresholds }) = profile {
            let file = file
                .as_ref()
                .map_or_else(String::new, |file| format!(", which {} overrides", file.display()));
            let _ = writeln!(text, "  thresholds{file}: {}", thresholds.join(", "));
        }
    }
    text
}
