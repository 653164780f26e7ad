//! Where the bytes lie: sizes, names of files, and integers in byte slices.

/// Alignment of frames and size of first pages, independent of the machine's page size.
pub(crate) const PAGE: u64 = 4096;

/// Bytes of the header of a frame or of a checkpoint block.
pub(crate) const BLOCK_HEADER: usize = 64;

/// The manifest.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// Its second copy.
pub(crate) const SECOND_MANIFEST: &str = "MANIFEST.2";
/// The lock file, which keeps out a second opener.
pub(crate) const LOCK: &str = "LOCK";
/// Suffix of files that are not complete yet.
pub(crate) const TMP: &str = ".tmp";

/// The meaning of a file name in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Manifest,
    Lock,
    Segment(u64),
    Checkpoint(u64),
    /// Space set aside.
    Reserve(u64),
    Temporary,
    Foreign,
}

impl FileName {
    pub(crate) fn parse(name: &str) -> FileName {
        let numbered = |prefix: &str, suffix: &str| {
            let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let canonical =
                digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            canonical.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        if name == MANIFEST || name == SECOND_MANIFEST {
            FileName::Manifest
        } else if name == LOCK {
            FileName::Lock
        } else if let Some(number) = numbered("seg-", ".wal") {
            FileName::Segment(number)
        } else if let Some(id) = numbered("ckpt-", ".wkc") {
            FileName::Checkpoint(id)
        } else if let Some(number) = numbered("reserve-", TMP) {
            FileName::Reserve(number)
        } else if name.ends_with(TMP) {
            FileName::Temporary
        } else {
            FileName::Foreign
        }
    }
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("seg-{number:016x}.wal")
}

pub(crate) fn checkpoint_name(id: u64) -> String {
    format!("ckpt-{id:016x}.wkc")
}

/// A file of the reserve. It ends like a temporary file, so that older programs, which do not know the reserve, remove it.
pub(crate) fn reserve_name(number: u64) -> String {
    format!("reserve-{number:016x}{TMP}")
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        assert_eq!(FileName::parse(&segment_name(0x1f)), FileName::Segment(0x1f));
        assert_eq!(FileName::parse(&checkpoint_name(u64::MAX)), FileName::Checkpoint(u64::MAX));
        assert_eq!(FileName::parse(&reserve_name(7)), FileName::Reserve(7));
        assert_eq!(FileName::parse("reserve-7.tmp"), FileName::Temporary);
        assert_eq!(FileName::parse("MANIFEST"), FileName::Manifest);
        assert_eq!(FileName::parse("MANIFEST.2"), FileName::Manifest);
        assert_eq!(FileName::parse("MANIFEST.tmp"), FileName::Temporary);
        assert_eq!(FileName::parse("MANIFEST.2.tmp"), FileName::Temporary);
    }

    #[test]
    fn near_misses_are_foreign() {
        for name in [
            "seg-1.wal",
            "seg-000000000000001F.wal",
            "seg-+00000000000001f.wal",
            "ckpt-0000000000000001.wal",
            "",
        ] {
            assert_eq!(FileName::parse(name), FileName::Foreign, "{name}");
        }
    }
}
