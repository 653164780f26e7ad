//! A file that is there as a whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// A file under way, or standard output.
pub(crate) struct OutputFile {
    to: To,
    name: String,
}

enum To {
    /// Written under another name, and renamed at the end. An existing file is replaced only if `force`.
    File { writer: BufWriter<NamedTempFile>, path: PathBuf, force: bool },
    /// Something that cannot be renamed: a pipe, a device, standard output.
    Stream(BufWriter<Box<dyn Write>>),
}

const BUFFER: usize = 1 << 18;

impl OutputFile {
    /// Begins a file; `-` is standard output. An existing file is replaced only if `force`.
    pub(crate) fn create(path: &Path, force: bool) -> Result<OutputFile, Failure> {
        let stream = |to: Box<dyn Write>| To::Stream(BufWriter::with_capacity(BUFFER, to));
        if path == Path::new("-") {
            let to = stream(Box::new(std::io::stdout()));
            return Ok(OutputFile { to, name: "standard output".to_owned() });
        }
        let name = path.display().to_string();
        let doing = || Failure::io(format!("write {name}"));
        let to = match path.metadata() {
            Ok(metadata) if !metadata.is_file() => {
                stream(Box::new(OpenOptions::new().write(true).open(path).map_err(doing())?))
            }
            Ok(_) if !force => return Err(is_there(&name)),
            _ => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let file = tempfile::Builder::new()
                    .prefix(".warpkeep-")
                    .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
                    .tempfile_in(directory.unwrap_or(Path::new(".")))
                    .map_err(doing())?;
                To::File { writer: BufWriter::with_capacity(BUFFER, file), path: path.to_path_buf(), force }
            }
        };
        Ok(OutputFile { to, name })
    }

    /// Its name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file to write anywhere in, if it is one.
    pub(crate) fn file(&mut self) -> Result<&File, Failure> {
        match &mut self.to {
            To::File { writer, .. } => {
                writer.flush().map_err(Failure::io(format!("write {}", self.name)))?;
                Ok(writer.get_ref().as_file())
            }
            To::Stream(_) => Err(Failure::Usage(format!(
                "a NumPy array cannot be written to {}; give the name of a file",
                self.name
            ))),
        }
    }

    /// Everything is written: puts the file in its place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let doing = || Failure::io(format!("write {}", self.name));
        match self.to {
            To::Stream(mut writer) => writer.flush().map_err(doing()),
            To::File { mut writer, path, force } => {
                writer.flush().map_err(doing())?;
                let file = writer.into_inner().map_err(|error| doing()(error.into_error()))?;
                // Another program may have made a file of this name since the start.
                let placed = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
                match placed {
                    Ok(_) => Ok(()),
                    Err(error) if !force && error.error.kind() == ErrorKind::AlreadyExists => {
                        Err(is_there(&self.name))
                    }
                    Err(error) => Err(doing()(error.error)),
                }
            }
        }
    }
}

fn is_there(name: &str) -> Failure {
    Failure::error(format!("{name} is there already; give --force to replace it, or another name"))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.to {
            To::File { writer, .. } => writer.write(bytes),
            To::Stream(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.to {
            To::File { writer, .. } => writer.flush(),
            To::Stream(writer) => writer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_appears_meanwhile_is_replaced_only_by_force() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("out.csv");
        for force in [false, true] {
            let _ = std::fs::remove_file(&path);
            let mut output = OutputFile::create(&path, force).unwrap();
            output.write_all(b"ours").unwrap();
            std::fs::write(&path, "another's").unwrap();
            let finished = output.finish();
            let content = std::fs::read_to_string(&path).unwrap();
            match force {
                true => assert!(finished.is_ok() && content == "ours", "{content}"),
                false => {
                    let message = finished.unwrap_err().message();
                    assert!(message.contains("out.csv is there already; give --force"), "{message}");
                    assert_eq!(content, "another's");
                }
            }
            // Nothing else is left behind.
            assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
        }
    }
}
