//! Files to be damaged and mended.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The files of a directory and their bytes.
pub(crate) fn files_in(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a plain name");
            (name, std::fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

/// Copies the files of a directory into another, which must not be there yet.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a new directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// Opens a file to be damaged in place: it stays the same file, which the image looks at.
fn in_place(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).expect("a file")
}

/// Gives a file these bytes and this length, in place.
pub(crate) fn restore(path: &Path, bytes: &[u8]) {
    let file = in_place(path);
    file.write_all_at(bytes, 0).expect("written");
    file.set_len(bytes.len() as u64).expect("its length");
}

/// Changes one byte of a file that has the bytes `good`.
pub(crate) fn flip(path: &Path, good: &[u8], at: usize, mask: u8) {
    in_place(path).write_all_at(&[good[at] ^ mask], at as u64).expect("written");
}

/// Sets the checksum at the end of a page that has been changed.
pub(crate) fn reseal(page: &mut [u8]) {
    let crc = crc32c::crc32c(&page[..4092]);
    page[4092..4096].copy_from_slice(&crc.to_le_bytes());
}
