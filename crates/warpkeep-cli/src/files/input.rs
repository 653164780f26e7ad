//! A file to read from, or standard input.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Failure;

/// Bytes to read, with a count of those read so far.
pub(crate) struct Input {
    source: BufReader<Box<dyn Read>>,
    read: Arc<AtomicU64>,
    len: Option<u64>,
    name: String,
    /// The file, to read anywhere in, if it is one.
    file: Option<File>,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Input, Failure> {
        let (source, len, name, file): (Box<dyn Read>, _, _, _) = if path == Path::new("-") {
            (Box::new(std::io::stdin().lock()), None, "standard input".to_owned(), None)
        } else {
            let name = path.display().to_string();
            let doing = || Failure::io(format!("read {name}"));
            let file = File::open(path).map_err(doing())?;
            let metadata = file.metadata().map_err(doing())?;
            if metadata.is_dir() {
                return Err(Failure::Usage(format!("{name} is a directory; give a file")));
            }
            let len = metadata.is_file().then_some(metadata.len());
            let whole = metadata.is_file().then(|| file.try_clone()).transpose().map_err(doing())?;
            (Box::new(file), len, name, whole)
        };
        let source = BufReader::with_capacity(1 << 18, source);
        Ok(Input { source, read: Arc::default(), len, name, file })
    }

    /// Its name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its length, if it is a file that has one.
    pub(crate) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Reads bytes from anywhere in a file; `None` if it is none.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> Option<std::io::Result<()>> {
        let read = self.file.as_ref()?.read_exact_at(buffer, at);
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Some(read)
    }

    /// Bytes read so far, also after the input was handed on.
    pub(crate) fn progress(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.source.read(buffer)?;
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}
