//! Which image a log was last used with, noted in the manifest for the next opener. The log itself does not look at it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::LogError;
use crate::page::Page;

const BOOT_AT: usize = 96;
const LENGTH_AT: usize = 112;
const FLAGS_AT: usize = 116;
const PATH_AT: usize = 120;
/// The page ends with its checksum.
const MAX_PATH: usize = Page::END - PATH_AT;
const PERSISTENT: u32 = 1;

/// The image that a log was last used with.
///
/// ```
/// use std::path::Path;
/// use warpkeep_log::ImageNote;
///
/// let note = ImageNote::new(Path::new("/dev/shm/image"), [7; 16], false).expect("it is not too long");
/// assert_eq!(note.path(), Path::new("/dev/shm/image"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageNote {
    path: PathBuf,
    /// The boot of the machine in which the image was opened.
    pub boot_id: [u8; 16],
    /// Whether flushed and fenced bytes survive a power failure.
    pub persistent: bool,
}

impl ImageNote {
    /// `None` for a path that is not absolute, or too long to be noted.
    pub fn new(path: &Path, boot_id: [u8; 16], persistent: bool) -> Option<ImageNote> {
        let fits = path.is_absolute() && path.as_os_str().len() <= MAX_PATH;
        fits.then(|| ImageNote { path: path.to_path_buf(), boot_id, persistent })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the note from a manifest; `None` if the writing program stored none.
    pub(crate) fn from_page(page: &Page) -> Result<Option<ImageNote>, LogError> {
        let length = page.half(LENGTH_AT) as usize;
        if length == 0 {
            return Ok(None);
        }
        if length > MAX_PATH {
            let what = format!("it notes a path of {length} bytes");
            return Err(LogError::ManifestDamaged { what });
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(page.bytes(BOOT_AT, 16));
        let path = PathBuf::from(OsStr::from_bytes(page.bytes(PATH_AT, length)));
        Ok(Some(ImageNote { path, boot_id, persistent: page.half(FLAGS_AT) & PERSISTENT != 0 }))
    }

    pub(crate) fn to_page(&self, page: &mut Page) {
        let path = self.path.as_os_str().as_bytes();
        page.set_bytes(BOOT_AT, &self.boot_id);
        page.set_half(LENGTH_AT, path.len() as u32);
        page.set_half(FLAGS_AT, if self.persistent { PERSISTENT } else { 0 });
        page.set_bytes(PATH_AT, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_goes_there_and_back() {
        let longest = format!("/{}", "x".repeat(MAX_PATH - 1));
        for path in ["/dev/shm/image", "/", &longest] {
            for persistent in [false, true] {
                let note = ImageNote::new(Path::new(path), [9; 16], persistent).expect("it fits");
                let mut page = Page::new(b"WKMANIFT", &[1; 16]);
                note.to_page(&mut page);
                let sealed = page.sealed();
                let page = Page::check(&sealed[..], b"WKMANIFT").expect("its checksum is in its place");
                assert_eq!(ImageNote::from_page(&page).expect("good"), Some(note));
            }
        }
        let page = Page::new(b"WKMANIFT", &[1; 16]);
        assert_eq!(ImageNote::from_page(&page).expect("good"), None, "what older programs wrote");
        assert_eq!(ImageNote::new(Path::new("image"), [0; 16], false), None);
        assert_eq!(ImageNote::new(Path::new(&format!("{longest}x")), [0; 16], false), None);
    }
}
