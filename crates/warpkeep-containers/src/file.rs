//! Files of containers: a header, then records of one length in blocks with checksums. All containers share this format.
//!
//! | bytes | header |
//! | --- | --- |
//! | 0..8 | which kind of container: [`FileKind`] |
//! | 8..12 | version |
//! | 12..14 | records of a full block |
//! | 14, 15 | bytes of a key and of a value; zeros for [the widths that a kind had first](FileKind) |
//! | 16..24 | records of the file |
//! | 24..32 | a word whose meaning depends on the kind |
//! | 32..36 | checksum (CRC-32C) of the bytes before it |
//! | 36..40 | zeros |
//!
//! Blocks follow: records, then the checksum of those. Only the last block has fewer records. Numbers are little-endian.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ContainerError;

const VERSION: u32 = 1;
const HEADER: usize = 40;
/// Records of a block.
const BLOCK: usize = 4096;
/// Blocks that [`Reader::next_part`] reads at once.
const BLOCKS: usize = 256;

/// A kind of container, in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileKind {
    magic: [u8; 8],
    name: &'static str,
    /// The widths of keys and values in files that state none.
    first_widths: Option<[u8; 2]>,
}

impl FileKind {
    pub(crate) const HASH_MAP: Self =
        Self { magic: *b"WKHMAP\r\n", name: "a HashMap", first_widths: Some([8, 8]) };
    pub(crate) const HASH_SET: Self =
        Self { magic: *b"WKHSET\r\n", name: "a HashSet", first_widths: Some([8, 0]) };
    pub(crate) const CUCKOO_INDEX: Self =
        Self { magic: *b"WKCUCK\r\n", name: "a CuckooIndex", first_widths: None };
    pub(crate) const SLAB_MAP: Self = Self { magic: *b"WKSMAP\r\n", name: "a SlabMap", first_widths: None };
    pub(crate) const SLAB_SET: Self = Self { magic: *b"WKSSET\r\n", name: "a SlabSet", first_widths: None };
    pub(crate) const SLAB_MULTI_MAP: Self =
        Self { magic: *b"WKSMUL\r\n", name: "a SlabMultiMap", first_widths: None };
    pub(crate) const ORDERED_MAP: Self =
        Self { magic: *b"WKOMAP\r\n", name: "an OrderedMap", first_widths: None };
    pub(crate) const GRAPH: Self = Self { magic: *b"WKGRAF\r\n", name: "a Graph", first_widths: None };
    const ALL: [Self; 8] = [
        Self::HASH_MAP,
        Self::HASH_SET,
        Self::CUCKOO_INDEX,
        Self::SLAB_MAP,
        Self::SLAB_SET,
        Self::SLAB_MULTI_MAP,
        Self::ORDERED_MAP,
        Self::GRAPH,
    ];
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFormat {
    pub(crate) kind: FileKind,
    pub(crate) key_bytes: u8,
    /// 0 if there are no values.
    pub(crate) value_bytes: u8,
}

impl FileFormat {
    /// Bytes of a record: a key and its value.
    fn record_bytes(self) -> usize {
        usize::from(self.key_bytes) + usize::from(self.value_bytes)
    }

    fn header(self, count: u64, word: u64) -> [u8; HEADER] {
        let widths = [self.key_bytes, self.value_bytes];
        let widths = if self.kind.first_widths == Some(widths) { [0, 0] } else { widths };
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.kind.magic);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..14].copy_from_slice(&(BLOCK as u16).to_le_bytes());
        bytes[14..16].copy_from_slice(&widths);
        bytes[16..24].copy_from_slice(&count.to_le_bytes());
        bytes[24..32].copy_from_slice(&word.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..32]);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// For messages.
    fn describe(self) -> String {
        match (self.kind.name, self.key_bytes, self.value_bytes) {
            (name, keys, 0) => format!("{name} with keys of {keys} bytes"),
            (name, keys, values) => format!("{name} with keys of {keys} and values of {values} bytes"),
        }
    }
}

/// Writes a file. `fill` gives all records. The file is written under another name beside it, made durable and renamed, so that after a crash
/// there is the old file or the new one.
pub(crate) fn save(
    path: &Path,
    format: FileFormat,
    word: u64,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), ContainerError>,
) -> Result<(), ContainerError> {
    let (beside, file) = create_beside(path)?;
    let failed = |source| ContainerError::Io { path: path.to_owned(), source };
    let renamed = Writer::new(&beside, file, format).and_then(|mut writer| {
        fill(&mut writer)?;
        writer.finish(word)?;
        fs::rename(&beside, path).map_err(failed)
    });
    if renamed.is_err() {
        // The caller gets the reason why it was not written.
        let _ = fs::remove_file(&beside);
    }
    renamed?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// A new file beside `path`. Names that are taken are passed over: a program with the same process number, such as the one before it in a container,
/// may have left its file there, or may be writing it.
fn create_beside(path: &Path) -> Result<(PathBuf, File), ContainerError> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}-{number}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        match File::create_new(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(ContainerError::Io { path: beside, source }),
        }
    }
}

/// Takes the records of a file.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    path: &'a Path,
    to: BufWriter<File>,
    format: FileFormat,
    block: Vec<u8>,
    count: u64,
}

impl<'a> Writer<'a> {
    fn new(path: &'a Path, file: File, format: FileFormat) -> Result<Self, ContainerError> {
        let mut to = BufWriter::with_capacity(1 << 20, file);
        // The number of records is known at the end; until then the header is not one.
        to.write_all(&[0; HEADER]).map_err(|source| ContainerError::Io { path: path.to_owned(), source })?;
        Ok(Self { path, to, format, block: Vec::with_capacity(BLOCK * format.record_bytes() + 4), count: 0 })
    }

    /// Adds a record: the bytes of its key, and those of its value.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), ContainerError> {
        debug_assert_eq!(key.len() + value.len(), self.format.record_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        self.count += 1;
        if self.block.len() == BLOCK * self.format.record_bytes() { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), ContainerError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let sum = crc32c::crc32c(&self.block);
        self.block.extend_from_slice(&sum.to_le_bytes());
        let written = self.to.write_all(&self.block).map_err(|source| self.failed(source));
        self.block.clear();
        written
    }

    fn finish(mut self, word: u64) -> Result<(), ContainerError> {
        self.end_block()?;
        let header = self.format.header(self.count, word);
        let failed = |source| ContainerError::Io { path: self.path.to_owned(), source };
        let mut file = self.to.into_inner().map_err(|error| failed(error.into_error()))?;
        io::Seek::rewind(&mut file).map_err(failed)?;
        file.write_all(&header).map_err(failed)?;
        file.sync_all().map_err(failed)
    }

    fn failed(&self, source: io::Error) -> ContainerError {
        ContainerError::Io { path: self.path.to_owned(), source }
    }
}

/// A file whose header was checked.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    path: &'a Path,
    from: BufReader<File>,
    format: FileFormat,
    left: u64,
    block: u64,
    /// Records of the file.
    pub(crate) count: u64,
    /// The word of the header.
    pub(crate) word: u64,
}

impl<'a> Reader<'a> {
    /// Opens a file that holds what `format` says, or gives an error.
    pub(crate) fn open(path: &'a Path, format: FileFormat) -> Result<Self, ContainerError> {
        let failed = |source| ContainerError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let from = BufReader::with_capacity(1 << 20, file);
        let mut reader = Reader { path, from, format, left: 0, block: 0, count: 0, word: 0 };
        let mut start = [0; HEADER];
        reader.read(&mut start, "the header")?;
        let found = reader.check_header(&start)?;
        if found != format {
            let (found, expected) = (found.describe(), format.describe());
            return Err(ContainerError::WrongKind { path: path.to_owned(), found, expected });
        }
        // Before memory is asked for as the header says.
        let blocks = u128::from(reader.count.div_ceil(BLOCK as u64));
        let records = format.record_bytes() as u128 * u128::from(reader.count);
        let expected = HEADER as u128 + records + 4 * blocks;
        if u128::from(bytes) != expected {
            return Err(reader.damaged(&format!("it has {bytes} bytes, and {expected} were saved")));
        }
        Ok(reader)
    }

    /// What the file holds, if its header is sound.
    fn check_header(&mut self, start: &[u8; HEADER]) -> Result<FileFormat, ContainerError> {
        let word = |at: usize| u64::from_le_bytes(start[at..at + 8].try_into().expect("eight bytes"));
        (self.count, self.word) = (word(16), word(24));
        self.left = self.count;
        let Some(kind) = FileKind::ALL.into_iter().find(|kind| start[..8] == kind.magic) else {
            return Err(self.damaged("it does not begin as the file of a container does"));
        };
        let version = word(8) as u32;
        if version != VERSION {
            let what = format!("it has version {version}, and this program reads version {VERSION}");
            return Err(self.damaged(&what));
        }
        let [key_bytes, value_bytes] = match (kind.first_widths, [start[14], start[15]]) {
            (Some(first), [0, 0]) => first,
            (_, widths) => widths,
        };
        let found = FileFormat { kind, key_bytes, value_bytes };
        if *start != found.header(self.count, self.word) {
            return Err(self.damaged("the checksum of its header is wrong"));
        }
        Ok(found)
    }

    /// The next records, up to about a million, whose checksums are right; `None` after the last.
    pub(crate) fn next_part(&mut self) -> Result<Option<Vec<u8>>, ContainerError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut part = Vec::new();
        for _ in 0..BLOCKS {
            let records = self.left.min(BLOCK as u64) as usize;
            if records == 0 {
                break;
            }
            let (begin, bytes) = (part.len(), records * self.format.record_bytes());
            part.resize(begin + bytes + 4, 0);
            self.read(&mut part[begin..], "a block")?;
            let sum = part.split_off(begin + bytes);
            if crc32c::crc32c(&part[begin..]).to_le_bytes() != sum[..] {
                return Err(self.damaged(&format!("the checksum of block {} is wrong", self.block)));
            }
            self.left -= records as u64;
            self.block += 1;
        }
        Ok(Some(part))
    }

    pub(crate) fn damaged(&self, what: &str) -> ContainerError {
        ContainerError::Damaged { path: self.path.to_owned(), what: what.to_owned() }
    }

    fn read(&mut self, to: &mut [u8], what: &str) -> Result<(), ContainerError> {
        match self.from.read_exact(to) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damaged(&format!("it ends inside {what}")))
            }
            Err(source) => Err(ContainerError::Io { path: self.path.to_owned(), source }),
        }
    }
}
