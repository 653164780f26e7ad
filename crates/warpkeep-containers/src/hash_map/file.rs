//! Maps in files.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_device::{Device, Result};

use super::kernels::Shape;
use super::{HashMap, HashMapOptions, MapStatus};
use crate::ContainerError;

/// What files of maps and of sets begin with.
const fn magic(shape: Shape) -> [u8; 8] {
    match shape {
        Shape::Map => *b"WKHMAP\r\n",
        Shape::Set => *b"WKHSET\r\n",
    }
}
const VERSION: u32 = 1;
/// Bytes of the header: magic, version, pairs of a full block, pairs of the file, seed, checksum of all that, zeros.
const HEADER: usize = 40;
/// Pairs of a block. Only the last has fewer.
const BLOCK: usize = 4096;

impl HashMap {
    /// Writes all pairs to a file, with checksums. The file is written under another name beside it, made durable and renamed, so after a
    /// crash there is the old file or the new one. Calls that change the map wait until it is written.
    ///
    /// ```
    /// use warpkeep_containers::{HashMap, HashMapOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("ids.map");
    /// let map = HashMap::on_cpu(&HashMapOptions::default());
    /// map.insert(&[1, 2], &[10, 20])?;
    /// map.save(&path)?;
    /// let loaded = HashMap::load_on_cpu(&path, &HashMapOptions::default())?;
    /// assert_eq!(loaded.find(&[1])?, [Some(10)]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        let path = path.as_ref();
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}-{number}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let written = self.write_to(&beside).and_then(|()| {
            let failed = |source| ContainerError::Io { path: path.to_owned(), source };
            fs::rename(&beside, path).map_err(failed)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)
        });
        if written.is_err() {
            // The caller gets the reason why it was not written.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// A map in device memory with the pairs of a file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved; there is no map then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: &HashMapOptions,
    ) -> Result<HashMap, ContainerError> {
        Self::load_shaped(Some(device), path.as_ref(), options, Shape::Map)
    }

    /// A map on the CPU with the pairs of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: &HashMapOptions) -> Result<HashMap, ContainerError> {
        Self::load_shaped(None, path.as_ref(), options, Shape::Map)
    }

    pub(super) fn load_shaped(
        device: Option<&Device>,
        path: &Path,
        options: &HashMapOptions,
        shape: Shape,
    ) -> Result<HashMap, ContainerError> {
        let mut file = Reader::open(path, shape)?;
        let options = HashMapOptions {
            items: options.items.max(file.count),
            seed: options.seed.or(Some(file.seed)),
            ..options.clone()
        };
        let map = match device {
            Some(device) => HashMap::shaped(device, &options, shape)?,
            None => HashMap::shaped_on_cpu(&options, shape),
        };
        file.fill(&map)?;
        Ok(map)
    }

    fn write_to(&self, path: &Path) -> Result<(), ContainerError> {
        let failed = |source| ContainerError::Io { path: path.to_owned(), source };
        let mut to = BufWriter::with_capacity(1 << 20, File::create_new(path).map_err(failed)?);
        // The number of pairs is known at the end; until then the header is not one.
        to.write_all(&[0; HEADER]).map_err(failed)?;
        let (mut block, mut count) = (Vec::with_capacity(BLOCK), 0);
        self.try_for_each_part(|pairs| {
            count += pairs.len() as u64;
            for &pair in pairs {
                block.push(pair);
                if block.len() == BLOCK {
                    write_block(&mut to, self.shape, &block).map_err(failed)?;
                    block.clear();
                }
            }
            Ok(())
        })?;
        if !block.is_empty() {
            write_block(&mut to, self.shape, &block).map_err(failed)?;
        }
        let mut file = to.into_inner().map_err(|error| failed(error.into_error()))?;
        io::Seek::rewind(&mut file).map_err(failed)?;
        file.write_all(&header(self.shape, count, self.seed)).map_err(failed)?;
        file.sync_all().map_err(failed)
    }
}

fn header(shape: Shape, count: u64, seed: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&magic(shape));
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&count.to_le_bytes());
    bytes[24..32].copy_from_slice(&seed.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..32]);
    bytes[32..36].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn write_block(to: &mut impl Write, shape: Shape, pairs: &[(u64, u64)]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16 * pairs.len() + 4);
    for (key, value) in pairs {
        bytes.extend_from_slice(&key.to_le_bytes());
        if shape == Shape::Map {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    to.write_all(&bytes)
}

/// A file whose header was checked.
struct Reader<'a> {
    path: &'a Path,
    from: BufReader<File>,
    shape: Shape,
    count: u64,
    seed: u64,
}

impl<'a> Reader<'a> {
    fn open(path: &'a Path, shape: Shape) -> Result<Self, ContainerError> {
        let failed = |source| ContainerError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut reader =
            Reader { path, from: BufReader::with_capacity(1 << 20, file), shape, count: 0, seed: 0 };
        let mut start = [0; HEADER];
        reader.read(&mut start, "the header")?;
        let word = |at: usize| u64::from_le_bytes(start[at..at + 8].try_into().expect("eight bytes"));
        (reader.count, reader.seed) = (word(16), word(24));
        let version = word(8) as u32;
        if start[..8] != magic(shape) {
            return Err(reader
                .damaged("it does not begin as a saved hash map or hash set does, or is the other of both"));
        }
        if version != VERSION {
            let what = format!("it has version {version}, and this program reads version {VERSION}");
            return Err(reader.damaged(&what));
        }
        if start != header(shape, reader.count, reader.seed) {
            return Err(reader.damaged("the checksum of its header is wrong"));
        }
        // Before memory is asked for as the header says.
        let blocks = u128::from(reader.count.div_ceil(BLOCK as u64));
        let expected = HEADER as u128 + 8 * shape.words() as u128 * u128::from(reader.count) + 4 * blocks;
        if u128::from(bytes) != expected {
            return Err(reader.damaged(&format!("it has {bytes} bytes, and {expected} were saved")));
        }
        Ok(reader)
    }

    /// Inserts all pairs into an empty map.
    fn fill(&mut self, map: &HashMap) -> Result<(), ContainerError> {
        const BLOCKS: usize = 256;
        let bytes_of = 8 * self.shape.words();
        let (mut left, mut block) = (self.count, 0_u64);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while left > 0 {
            keys.clear();
            values.clear();
            for _ in 0..BLOCKS {
                let pairs = left.min(BLOCK as u64) as usize;
                if pairs == 0 {
                    break;
                }
                let mut bytes = vec![0; bytes_of * pairs + 4];
                self.read(&mut bytes, "a block")?;
                let (data, sum) = bytes.split_at(bytes_of * pairs);
                if crc32c::crc32c(data).to_le_bytes() != sum {
                    return Err(self.damaged(&format!("the checksum of block {block} is wrong")));
                }
                for pair in data.chunks_exact(bytes_of) {
                    let word =
                        |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().expect("eight bytes"));
                    keys.push(word(0));
                    values.push(if bytes_of == 16 { word(8) } else { 0 });
                }
                left -= pairs as u64;
                block += 1;
            }
            let answers = map.insert(&keys, &values)?;
            if let Some(answer) = answers.iter().find(|answer| answer.status != MapStatus::Inserted) {
                return Err(match answer.status {
                    MapStatus::Full => warpkeep_device::DeviceError::OutOfBudget {
                        asked: bytes_of as u64 * self.count,
                        left: bytes_of as u64 * map.stats()?.slots,
                    }
                    .into(),
                    _ => self.damaged("it has a key twice"),
                });
            }
        }
        Ok(())
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

    fn damaged(&self, what: &str) -> ContainerError {
        ContainerError::Damaged { path: self.path.to_owned(), what: what.to_owned() }
    }
}
