//! A file under construction has a temporary name, so that the real name never refers to half an image.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::ImageError;
use crate::lock::{LockableFile, held};

/// `.<name>.creating` beside the file.
pub(super) fn name_while_creating(directory: &Path, name: &OsStr) -> PathBuf {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".creating");
    directory.join(hidden)
}

/// Creates an empty, locked file of that name. A leftover of a crash is removed; a file that another process is
/// creating is left alone.
pub(super) fn begin(temporary: &Path) -> Result<LockableFile, ImageError> {
    // Each round that does not end has seen another process act between two of our calls.
    for _ in 0..100 {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(temporary);
        match file.map(LockableFile::new) {
            // Another process may have taken our file for a stale one before we locked it.
            Ok(file) if lock(&file, temporary)? && is_at(&file, temporary) => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => remove_stale(temporary)?,
            Err(error) => return Err(ImageError::io(temporary, "create it")(error)),
        }
    }
    Err(ImageError::Held { path: temporary.to_path_buf(), holder: "other processes creating it".to_owned() })
}

fn remove_stale(temporary: &Path) -> Result<(), ImageError> {
    let stale = match OpenOptions::new().read(true).write(true).open(temporary) {
        Ok(stale) => LockableFile::new(stale),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ImageError::io(temporary, "open what an interrupted creation left")(error)),
    };
    if !lock(&stale, temporary)? {
        return Err(held(temporary, &stale));
    }
    // Meanwhile another process may have created a new file of that name.
    if is_at(&stale, temporary) {
        std::fs::remove_file(temporary)
            .map_err(ImageError::io(temporary, "remove what an interrupted creation left"))?;
    }
    Ok(())
}

fn lock(file: &LockableFile, path: &Path) -> Result<bool, ImageError> {
    file.try_lock_exclusive().map_err(ImageError::io(path, "lock it"))
}

/// Whether the name still means this file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => ours.dev() == theirs.dev() && ours.ino() == theirs.ino(),
        _ => false,
    }
}

/// Gives the file its name, unless that is taken.
pub(super) fn finish(temporary: &Path, path: &Path) -> Result<(), ImageError> {
    match renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(ImageError::Exists { path: path.to_path_buf() }),
        // Some network file systems cannot; creating a second name and removing the first has the same effect.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_and_remove(temporary, path),
        Err(error) => Err(ImageError::io(temporary, "give it its name")(error.into())),
    }
}

fn link_and_remove(temporary: &Path, path: &Path) -> Result<(), ImageError> {
    match std::fs::hard_link(temporary, path) {
        Ok(()) => {
            std::fs::remove_file(temporary).map_err(ImageError::io(temporary, "remove its temporary name"))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(ImageError::Exists { path: path.to_path_buf() })
        }
        Err(error) => Err(ImageError::io(temporary, "give it its name")(error)),
    }
}

/// Makes the names in a directory outlive the machine.
pub(super) fn sync_directory(directory: &Path) -> Result<(), ImageError> {
    let opened = File::open(directory).map_err(ImageError::io(directory, "open the directory"))?;
    match opened.sync_all() {
        // In-memory file systems may not support it.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        result => result.map_err(ImageError::io(directory, "sync the directory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_is_given_and_never_replaces() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for way in [finish, link_and_remove] {
            std::fs::write(at("new"), "new").expect("a file");
            std::fs::write(at("old"), "old").expect("a file");
            assert!(matches!(way(&at("new"), &at("old")), Err(ImageError::Exists { .. })));
            assert_eq!(std::fs::read_to_string(at("old")).expect("still there"), "old");
            std::fs::remove_file(at("old")).expect("removed");
            way(&at("new"), &at("old")).expect("the name is free");
            assert_eq!(std::fs::read_to_string(at("old")).expect("there"), "new");
            assert!(!at("new").exists());
        }
    }
}
