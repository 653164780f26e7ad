//! Space for the image, allocated before anything is stored there: a full disk is an error here, and later would be
//! a signal that ends the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::limits::{self, Bytes, Space};
use crate::{ImageError, Medium, Placement};

/// Checks beforehand whether the file can be extended from `from` to `to`, with the available space.
pub(super) fn check(placement: &Placement, from: u64, to: u64, space: Space) -> Result<(), ImageError> {
    if let Some(limit) = limits::file_size().filter(|&limit| to > limit) {
        return Err(ImageError::Limit {
            limit: "the file-size limit (RLIMIT_FSIZE)",
            needed: format!("the image would have {}, the limit is {}", Bytes(to), Bytes(limit)),
            remedy: "raise it (`ulimit -f unlimited`; systemd: LimitFSIZE=infinity)".to_owned(),
        });
    }
    // Beyond available memory the system does not refuse: it kills a process.
    if placement.medium == Medium::Tmpfs && to - from > space.free {
        return Err(explain(Errno::NOSPC, &placement.path, placement, to - from, space));
    }
    Ok(())
}

/// Allocates the space `from..to` of the file, which ends at or before `to`; new bytes are zero. `keep` is set
/// where the range may hold data: then a file system that cannot reserve is left alone.
pub(super) fn take(file: &File, from: u64, to: u64, keep: bool) -> Result<(), Errno> {
    const WHOLE: u64 = 1 << 30;
    const SMALLEST: u64 = 1 << 20;
    let mut at = from;
    let mut slice = WHOLE;
    while at < to {
        match fallocate(file, FallocateFlags::empty(), at, slice.min(to - at)) {
            Ok(()) => at += slice.min(to - at),
            // When a signal interrupts the call, tmpfs releases all its pages again; with a profiler's timer
            // running, a long call would never end.
            Err(Errno::INTR) => slice = (slice / 2).max(SMALLEST),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if keep => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return write_zeros(file, at, to),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// For file systems that cannot reserve: writing allocates the space. A sparse file would not.
fn write_zeros(file: &File, from: u64, to: u64) -> Result<(), Errno> {
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let part = (to - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..part as usize], at)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        at += part;
    }
    Ok(())
}

/// Explains a lack of space, and gives the remedy. `space` is the space available before the attempt.
pub(super) fn explain(
    error: Errno,
    path: &Path,
    placement: &Placement,
    wanted: u64,
    space: Space,
) -> ImageError {
    let file_system = &placement.file_system;
    let mount_point = placement.mount_point.display();
    let why = match error {
        Errno::DQUOT => format!(
            "the disk quota on {file_system} at {mount_point} is used up; free space, or ask for a larger quota"
        ),
        Errno::FBIG => format!("{file_system} at {mount_point} allows no file that long; split the data"),
        Errno::NOSPC | Errno::NOMEM => {
            let free = Bytes(space.free);
            let remedy = remedy(placement, space);
            format!("{file_system} at {mount_point} has {free} free; {remedy}")
        }
        error => return ImageError::io(path, "take space for it")(io::Error::from(error)),
    };
    ImageError::OutOfSpace { wanted, why }
}

fn remedy(placement: &Placement, space: Space) -> &'static str {
    match placement.medium {
        Medium::Hugetlbfs => {
            "reserve more huge pages (`sysctl vm.nr_hugepages=<count>`, soon after boot), or put the image on tmpfs"
        }
        Medium::Tmpfs if limits::is_small_container_shm(&placement.mount_point, space) => {
            "it is a container's default: start the container with --shm-size=<size>, or put the image elsewhere"
        }
        Medium::Tmpfs => {
            "free memory, remount it larger (`mount -o remount,size=<size>`; a container's /dev/shm: --shm-size), \
             or put the image elsewhere"
        }
        Medium::Disk | Medium::FsDax | Medium::DevDax => "free space there, or put the image elsewhere",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_to_do_depends_on_where() {
        let mut placement = Placement::of(&std::env::temp_dir().join("image")).expect("a placement");
        let mut said = |medium, mount_point: &str, total| {
            (placement.medium, placement.mount_point) = (medium, mount_point.into());
            let space = Space { total, free: 5 << 20 };
            explain(Errno::NOSPC, Path::new("image"), &placement, 1 << 30, space).to_string()
        };
        let container = said(Medium::Tmpfs, "/dev/shm", 64 << 20);
        assert!(container.contains("5 MiB free") && container.contains("--shm-size"), "{container}");
        assert!(container.contains("1073741824 bytes") && container.contains("default"), "{container}");
        let roomy = said(Medium::Tmpfs, "/dev/shm", 64 << 30);
        assert!(roomy.contains("remount") && !roomy.contains("default"), "{roomy}");
        assert!(said(Medium::Hugetlbfs, "/mnt", 0).contains("vm.nr_hugepages"));
        assert!(said(Medium::Disk, "/", 1 << 40).contains("free space there"));
    }

    #[test]
    fn zeros_written_take_space() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(b"kept", 0).expect("a write");
        write_zeros(&file, 4, (3 << 20) + 5).expect("room");
        let metadata = file.metadata().expect("metadata");
        assert_eq!(metadata.len(), (3 << 20) + 5);
        assert!(metadata.blocks() * 512 >= 3 << 20, "{} blocks", metadata.blocks());
        let mut start = [1; 8];
        file.read_exact_at(&mut start, 0).expect("a read");
        assert_eq!(&start, b"kept\0\0\0\0");
    }

    #[test]
    fn taking_space_fills_holes_and_keeps_data() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4 << 20).expect("a hole");
        file.write_all_at(b"kept", 1 << 20).expect("a write");
        take(&file, 0, 4 << 20, true).expect("room");
        let mut there = [0; 4];
        file.read_exact_at(&mut there, 1 << 20).expect("a read");
        assert_eq!(&there, b"kept");
        assert!(file.metadata().expect("metadata").blocks() * 512 >= 4 << 20);
    }
}
