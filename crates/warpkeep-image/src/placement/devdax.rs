//! Persistent memory handed out as a character device (`/dev/dax0.0`).

use std::path::Path;

/// A device, as sysfs describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DaxDevice {
    /// Its length in bytes.
    pub(super) len: u64,
    /// The alignment of its mappings.
    pub(super) align: u64,
}

impl DaxDevice {
    /// The device with this number; `None` if it is of another kind.
    pub(super) fn with_number(major: u32, minor: u32) -> Option<Self> {
        Self::under(Path::new("/sys/dev/char"), major, minor)
    }

    fn under(devices: &Path, major: u32, minor: u32) -> Option<Self> {
        let device = devices.join(format!("{major}:{minor}"));
        let subsystem = std::fs::read_link(device.join("subsystem")).ok()?;
        if subsystem.file_name()? != "dax" {
            return None;
        }
        let number = |name: &str| -> Option<u64> {
            std::fs::read_to_string(device.join(name)).ok()?.trim().parse().ok()
        };
        // Kernels before 5.10 do not report the alignment; 2 MiB was the default.
        let align = number("align").filter(|align| align.is_power_of_two()).unwrap_or(2 << 20);
        Some(Self { len: number("size")?, align })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn read_from_sysfs() {
        let sysfs = tempfile::tempdir().expect("a directory");
        let device = |number: &str, subsystem: &str, files: &[(&str, &str)]| {
            let at = sysfs.path().join(number);
            std::fs::create_dir(&at).expect("a directory");
            symlink(format!("../../../../bus/{subsystem}"), at.join("subsystem")).expect("a link");
            for (name, text) in files {
                std::fs::write(at.join(name), text).expect("a file");
            }
        };
        device("252:0", "dax", &[("size", "16909336576\n"), ("align", "1073741824\n")]);
        device("252:1", "dax", &[("size", "4294967296\n")]);
        device("252:2", "dax", &[("size", "much\n")]);
        device("1:3", "mem", &[("size", "4096\n")]);

        let at = |major, minor| DaxDevice::under(sysfs.path(), major, minor);
        assert_eq!(at(252, 0), Some(DaxDevice { len: 16_909_336_576, align: 1 << 30 }));
        assert_eq!(at(252, 1), Some(DaxDevice { len: 4 << 30, align: 2 << 20 }));
        assert_eq!(at(252, 2), None);
        assert_eq!(at(1, 3), None);
        assert_eq!(at(9, 9), None);
    }
}
