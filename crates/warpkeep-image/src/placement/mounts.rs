//! Mounts, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    pub(super) point: PathBuf,
    pub(super) file_system: String,
    /// The options of the mount and of the file system together.
    options: Vec<String>,
}

impl Mount {
    /// The mount that holds `path`, which is absolute and without symbolic links; `id` is its number if the
    /// kernel reports it.
    pub(super) fn holding(path: &Path, id: Option<u64>) -> Option<Self> {
        let text = std::fs::read("/proc/self/mountinfo").ok()?;
        find(&text, path, id)
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.has("ro")
    }

    /// Whether every file on it is mapped straight to persistent memory. (`dax=inode`, the default, leaves it to
    /// each file.)
    pub(super) fn is_dax(&self) -> bool {
        self.has("dax") || self.has("dax=always")
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|have| have == option)
    }
}

fn find(mountinfo: &[u8], path: &Path, id: Option<u64>) -> Option<Mount> {
    let mounts: Vec<Mount> = mountinfo.split(|&byte| byte == b'\n').filter_map(parse).collect();
    if let Some(mount) = id.and_then(|id| mounts.iter().find(|mount| mount.id == id)) {
        return Some(mount.clone());
    }
    // Of mounts on the same point the last one hides the others; `max_by_key` returns the last of equals.
    mounts
        .into_iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())
}

/// `36 35 98:0 /root /mnt/point rw,noatime tag:1 - ext4 /dev/sda1 rw,dax=always`
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Any number of tags ends with a lone hyphen.
    let tail = 6 + fields.get(6..)?.iter().position(|&field| field == b"-")? + 1;
    let options = [fields.get(5)?, *fields.get(tail + 2).unwrap_or(&&b""[..])];
    Some(Mount {
        id: std::str::from_utf8(fields[0]).ok()?.parse().ok()?,
        point: PathBuf::from(OsString::from_vec(unescape(fields[4]))),
        file_system: text(fields.get(tail)?),
        options: options.iter().flat_map(|list| list.split(|&byte| byte == b',')).map(text).collect(),
    })
}

/// Undoes `\040` and its like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=64k
30 25 0:27 / /dev/shm rw,relatime shared:5 master:1 - tmpfs tmpfs rw,size=24682416k
40 27 259:0 / /mnt/pmem rw,relatime - ext4 /dev/pmem0 rw,dax=always
41 27 259:1 / /mnt/per\\040file ro,relatime - xfs /dev/pmem1 ro,dax=inode
42 27 259:2 / /mnt/old rw - ext4 /dev/pmem2 rw,dax
garbage
50 27 0:9 / /mnt/short rw
";

    fn at(path: &str, id: Option<u64>) -> Mount {
        find(TEXT, Path::new(path), id).expect("the root holds everything")
    }

    #[test]
    fn the_longest_point_holds_the_path() {
        assert_eq!(at("/home/x", None).id, 27);
        assert_eq!(at("/dev/shmoo", None).id, 27, "not by a prefix of a name");
        assert_eq!(at("/mnt/short/x", None).id, 27, "a line cut short counts for nothing");
        assert_eq!(at("/mnt/per file/x", None).point, Path::new("/mnt/per file"));
    }

    #[test]
    fn of_two_on_one_point_the_last_counts_unless_the_kernel_names_one() {
        assert_eq!(at("/dev/shm/x", None).id, 30);
        assert_eq!(at("/dev/shm/x", Some(25)).id, 25);
        assert_eq!(at("/dev/shm/x", Some(999)).id, 30, "an unknown number is no answer");
    }

    #[test]
    fn options_tell_dax_and_read_only() {
        assert!(at("/mnt/pmem/x", None).is_dax());
        assert!(at("/mnt/old/x", None).is_dax());
        assert!(!at("/mnt/per file/x", None).is_dax());
        assert!(at("/mnt/per file/x", None).is_read_only());
        assert!(!at("/home", None).is_dax());
        assert!(!at("/home", None).is_read_only());
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape(b"a\\040b\\134"), b"a b\\");
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"a\\999"), b"a\\999");
        assert_eq!(unescape(b"\\303\\266"), "ö".as_bytes());
    }
}
