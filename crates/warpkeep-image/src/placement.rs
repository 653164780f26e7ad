//! The placement of an image, and its consequences: which failures it survives, and whether CUDA can use it in
//! place.

mod devdax;
mod mounts;

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use serde::Serialize;

use crate::ImageError;
use crate::limits::{self, Bytes, Space};
use devdax::DaxDevice;
use mounts::Mount;

const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
const HUGETLBFS: u64 = 0x9584_58f6;

/// Names for file systems where the mount table gives none.
const KNOWN: [(u64, &str); 14] = [
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
    (HUGETLBFS, "hugetlbfs"),
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0x00c3_6400, "ceph"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
];

/// The kind of memory or storage that holds the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// A file on an ordinary file system, reached through the page cache.
    Disk,
    /// A file in memory.
    Tmpfs,
    /// A file in memory made of huge pages set aside by the administrator.
    Hugetlbfs,
    /// A file on persistent memory, mapped without a page cache.
    FsDax,
    /// Persistent memory as a character device.
    DevDax,
}

/// The state of the bytes after the machine goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Survival {
    /// All bytes are lost.
    Never,
    /// The bytes of the last sync, if nothing was stored since: in practice, a clean close.
    AfterSync,
    /// Everything that was flushed and fenced.
    WhenFlushed,
}

/// Which implementation of [`Persist`](crate::Persist) a placement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// [`Coherent`](crate::Coherent): no flush is needed.
    Coherent,
    /// `WriteBack` (x86-64): lines must be written back to persistent memory.
    WriteBack,
}

/// Where an image lies or would lie.
///
/// ```
/// use warpkeep_image::{Medium, Placement};
///
/// let placement = Placement::of("/dev/shm/sessions.image".as_ref())?;
/// if placement.medium == Medium::Tmpfs {
///     assert!(placement.survives_process);
/// }
/// println!("{placement}");
/// # Ok::<(), warpkeep_image::ImageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The file, with symbolic links resolved.
    pub path: PathBuf,
    /// The kind of memory or storage.
    pub medium: Medium,
    /// The file system by name, such as `ext4`.
    pub file_system: String,
    /// Where that is mounted; of a device, the device.
    pub mount_point: PathBuf,
    /// The unit of lengths and mappings.
    pub page_size: u64,
    /// The total space; 0 where memory is the only limit.
    pub total_bytes: u64,
    /// The room that is left; of a device, its length.
    pub free_bytes: u64,
    /// Whether the bytes outlive the process, however it ends.
    pub survives_process: bool,
    /// Whether the bytes outlive the machine's power.
    pub survives_machine: Survival,
    /// Whether CUDA can register the mapping, so that a GPU works on the image in place.
    pub cuda_registrable: bool,
    /// Whether the image can grow (a device: up to its length).
    pub can_grow: bool,
    /// What a user should know before relying on it.
    pub warnings: Vec<String>,
}

impl Placement {
    /// Looks at a file, at the directory of a file yet to be, or at a device.
    pub fn of(path: &Path) -> Result<Self, ImageError> {
        match std::fs::metadata(path) {
            Ok(metadata) => {
                let real = path.canonicalize().map_err(ImageError::io(path, "resolve its path"))?;
                Self::of_existing(&real, &metadata)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (directory, name) = directory_and_name(path)?;
                Self::of_file(directory.join(name), &directory)
            }
            Err(error) => Err(ImageError::io(path, "look at it")(error)),
        }
    }

    fn of_existing(real: &Path, metadata: &Metadata) -> Result<Self, ImageError> {
        let kind = metadata.file_type();
        if kind.is_file() {
            return Self::of_file(real.to_path_buf(), real);
        }
        let foreign = |found: &str| ImageError::Foreign { path: real.to_path_buf(), found: found.to_owned() };
        if kind.is_char_device() {
            let device = metadata.rdev();
            let device = DaxDevice::with_number(libc::major(device), libc::minor(device));
            return device
                .map(|device| Self::of_device(real, device))
                .ok_or_else(|| foreign("a character device that is not persistent memory"));
        }
        Err(foreign(match () {
            () if kind.is_dir() => "a directory",
            () if kind.is_block_device() => "a block device",
            () => "not a file",
        }))
    }

    fn of_device(path: &Path, device: DaxDevice) -> Self {
        Self {
            path: path.to_path_buf(),
            medium: Medium::DevDax,
            file_system: "devdax".to_owned(),
            mount_point: path.to_path_buf(),
            page_size: device.align,
            total_bytes: device.len,
            free_bytes: device.len,
            survives_process: true,
            survives_machine: Survival::WhenFlushed,
            cuda_registrable: true,
            can_grow: true,
            warnings: vec![
                "GPU stores reach persistent memory past the caches only where the platform's I/O does not \
                 allocate in them (DDIO off, or eADR)"
                    .to_owned(),
            ],
        }
    }

    /// A file at `path`; `existing` is that file, or its directory while it is not there yet.
    fn of_file(path: PathBuf, existing: &Path) -> Result<Self, ImageError> {
        let stat = rustix::fs::statfs(existing)
            .map_err(|error| ImageError::io(existing, "ask for its file system")(error.into()))?;
        // The field is signed and of varying width; the constants are 32 bits.
        let magic = u64::from(stat.f_type as u32);
        let space = Space::at(existing).map_err(ImageError::io(existing, "ask for its free space"))?;

        let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let extended = statx(CWD, existing, AtFlags::empty(), mask).ok();
        let mount_id = extended
            .filter(|stat| stat.stx_mask & StatxFlags::MNT_ID.bits() != 0)
            .map(|stat| stat.stx_mnt_id);
        let is_dax_file = extended
            .is_some_and(|stat| existing == path && stat.stx_attributes.contains(StatxAttributes::DAX));
        let mount = Mount::holding(existing, mount_id);

        let known = KNOWN.iter().find(|(number, _)| *number == magic).map(|(_, name)| (*name).to_owned());
        let file_system = mount.as_ref().map(|mount| mount.file_system.clone()).or(known);
        let file_system = file_system.unwrap_or_else(|| format!("file system {magic:#x}"));
        let medium = match magic {
            TMPFS | RAMFS => Medium::Tmpfs,
            HUGETLBFS => Medium::Hugetlbfs,
            _ if is_dax_file || mount.as_ref().is_some_and(Mount::is_dax) => Medium::FsDax,
            _ => Medium::Disk,
        };
        let read_only = mount.as_ref().is_some_and(Mount::is_read_only);
        let page_size = match medium {
            Medium::Hugetlbfs => stat.f_bsize as u64,
            _ => limits::page_size(),
        };
        let mut placement = Self {
            path,
            medium,
            mount_point: mount.map_or_else(|| existing.to_path_buf(), |mount| mount.point),
            page_size,
            total_bytes: space.total,
            free_bytes: free_bytes(medium, space, page_size),
            survives_process: true,
            survives_machine: match medium {
                Medium::Tmpfs | Medium::Hugetlbfs => Survival::Never,
                Medium::Disk => Survival::AfterSync,
                Medium::FsDax | Medium::DevDax => Survival::WhenFlushed,
            },
            // Kernels since 6.5 refuse to pin pages of ordinary files for long; ramfs has not been tried.
            cuda_registrable: medium == Medium::Hugetlbfs || magic == TMPFS,
            can_grow: !read_only,
            warnings: Vec::new(),
            file_system,
        };
        placement.warnings = placement.warnings_for(space, read_only);
        Ok(placement)
    }

    fn warnings_for(&self, space: Space, read_only: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |text: &str| warnings.push(text.to_owned());
        if read_only {
            warn("the file system is mounted read-only: images there can be looked at only");
        }
        if let Some(text) = warning_for(&self.file_system) {
            warn(text);
        }
        if self.file_system == "tmpfs" && limits::swap_is_on() {
            warn("swap is on: pages of the image may be swapped out; lock the memory to keep them in");
        }
        if self.medium == Medium::Tmpfs && limits::is_small_container_shm(&self.mount_point, space) {
            warn(
                "a container's default /dev/shm of 64 MiB: start the container with --shm-size=<size> for more",
            );
        }
        warnings
    }

    /// Which kind of flush and fence the image needs here.
    pub fn domain(&self) -> Domain {
        match self.medium {
            Medium::Disk | Medium::Tmpfs | Medium::Hugetlbfs => Domain::Coherent,
            Medium::FsDax | Medium::DevDax => Domain::WriteBack,
        }
    }

    /// The space available at this moment.
    pub(crate) fn space_now(&self) -> Space {
        if self.medium == Medium::DevDax {
            return Space { total: self.total_bytes, free: self.free_bytes };
        }
        let directory = self.path.parent().unwrap_or(&self.path);
        // A file system that does not report it has already refused, or soon will.
        let space = Space::at(directory).unwrap_or(Space { total: self.total_bytes, free: self.free_bytes });
        Space { free: free_bytes(self.medium, space, self.page_size), ..space }
    }

    /// Downgrades a file on persistent memory that the kernel maps through the page cache.
    pub(crate) fn downgrade_to_page_cache(&mut self) {
        self.medium = Medium::Disk;
        self.survives_machine = Survival::AfterSync;
        self.warnings.push(
            "the file system says dax but does not map this file so: it is treated as an ordinary file"
                .to_owned(),
        );
    }
}

/// The warning for a file system, by its name.
fn warning_for(file_system: &str) -> Option<&'static str> {
    Some(match file_system {
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "lustre" | "gpfs" | "afs" | "virtiofs" => {
            "a network file system: locks and mappings are not coherent between machines, so open the image on one \
             only"
        }
        name if name.starts_with("fuse") => {
            "a file system in user space: its mappings and locks are as good as the program behind it"
        }
        "btrfs" | "zfs" | "bcachefs" => {
            "a copy-on-write file system: space cannot be reserved for overwriting, so a full disk may end the \
             process; keep free space, or turn copy-on-write off for the directory (btrfs: chattr +C)"
        }
        "overlay" => {
            "the writable layer of a container: the image goes when the container is removed; use a volume"
        }
        "ramfs" => "ramfs has no size limit and cannot swap: growth is bounded by memory alone",
        _ => return None,
    })
}

/// The directory of a file, with symbolic links resolved, and the file's name in it.
pub(crate) fn directory_and_name(path: &Path) -> Result<(PathBuf, &std::ffi::OsStr), ImageError> {
    let Some(name) = path.file_name() else {
        return Err(ImageError::Invalid(format!("{} names no file; add a file name", path.display())));
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory =
        directory.canonicalize().map_err(ImageError::io(directory, "find the directory for the image"))?;
    Ok((directory, name))
}

fn free_bytes(medium: Medium, space: Space, page_size: u64) -> u64 {
    match medium {
        // A mount without a limit of its own reports none; then only memory bounds it. With a limit, memory still
        // does.
        Medium::Tmpfs => {
            let memory = limits::available_memory().unwrap_or(u64::MAX);
            if space.total == 0 { memory } else { space.free.min(memory) }
        }
        Medium::Hugetlbfs => {
            let pool = limits::free_huge_pages(page_size);
            if space.total == 0 { pool } else { space.free.min(pool) }
        }
        Medium::Disk | Medium::FsDax | Medium::DevDax => space.free,
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match self.medium {
            Medium::DevDax => write!(f, "persistent memory device of {}", Bytes(self.total_bytes))?,
            _ => {
                write!(f, "{} at {}, ", self.file_system, self.mount_point.display())?;
                if self.medium == Medium::FsDax {
                    write!(f, "on persistent memory, ")?;
                }
                write!(f, "{} free", Bytes(self.free_bytes))?;
            }
        }
        writeln!(f, ", in pages of {}", Bytes(self.page_size))?;
        writeln!(f, "  the process dies: everything it stored is kept")?;
        let machine = match self.survives_machine {
            Survival::Never => "the image is gone; only a log directory brings it back",
            Survival::AfterSync => {
                "the image is kept if it was closed cleanly; otherwise a log directory brings it back"
            }
            Survival::WhenFlushed => "everything flushed is kept",
        };
        writeln!(f, "  the machine goes down: {machine}")?;
        let cuda =
            if self.cuda_registrable { "can work on it in place" } else { "cannot map it; the CPU can" };
        write!(f, "  a GPU {cuda}")?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  note: {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Placement {
        Placement::of_device(Path::new("/dev/dax0.0"), DaxDevice { len: 16 << 30, align: 2 << 20 })
    }

    #[test]
    fn persistent_memory_keeps_what_was_flushed() {
        let placement = device();
        assert_eq!(placement.domain(), Domain::WriteBack);
        assert_eq!(placement.survives_machine, Survival::WhenFlushed);
        assert_eq!((placement.page_size, placement.free_bytes), (2 << 20, 16 << 30));
        let told = placement.to_string();
        assert!(
            told.starts_with("/dev/dax0.0: persistent memory device of 16 GiB, in pages of 2 MiB\n"),
            "{told}"
        );
        assert!(told.contains("everything flushed is kept") && told.contains("DDIO"), "{told}");
    }

    #[test]
    fn persistent_memory_behind_a_page_cache_is_a_disk() {
        let mut placement = Placement { medium: Medium::FsDax, ..device() };
        placement.downgrade_to_page_cache();
        assert_eq!(placement.domain(), Domain::Coherent);
        assert_eq!(placement.survives_machine, Survival::AfterSync);
        assert!(placement.warnings.iter().any(|warning| warning.contains("ordinary file")));
    }

    #[test]
    fn file_systems_with_a_catch_come_with_a_warning() {
        let part = |name| warning_for(name).unwrap_or("");
        assert!(part("nfs4").contains("network"));
        assert!(part("fuse.sshfs").contains("user space"));
        assert!(part("btrfs").contains("copy-on-write"));
        assert!(part("overlay").contains("volume"));
        assert_eq!(warning_for("ext4"), None);
        assert_eq!(warning_for("tmpfs"), None);
    }
}
