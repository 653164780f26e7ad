//! Maps in files.

use std::path::Path;

use warpkeep_device::{Device, Result};

use super::kernels::Shape;
use super::{HashMap, HashMapOptions, MapStatus};
use crate::ContainerError;
use crate::file::{self, FileFormat, FileKind, Reader};

/// What the file of a map or of a set holds.
const fn format(shape: Shape) -> FileFormat {
    match shape {
        Shape::Map => FileFormat { kind: FileKind::HASH_MAP, key_bytes: 8, value_bytes: 8 },
        Shape::Set => FileFormat { kind: FileKind::HASH_SET, key_bytes: 8, value_bytes: 0 },
    }
}

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
        let has_values = self.shape == Shape::Map;
        file::save(path.as_ref(), format(self.shape), self.seed, |file| {
            self.try_for_each_part(|pairs| {
                pairs.iter().try_for_each(|(key, value)| {
                    let value = value.to_le_bytes();
                    file.push(&key.to_le_bytes(), if has_values { &value } else { &[] })
                })
            })
        })
    }

    /// A map in device memory with the pairs of a file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if something else was saved; there
    /// is no map then.
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
        let mut file = Reader::open(path, format(shape))?;
        let options = HashMapOptions {
            items: options.items.max(file.count),
            seed: options.seed.or(Some(file.word)),
            ..options.clone()
        };
        let map = match device {
            Some(device) => HashMap::shaped(device, &options, shape)?,
            None => HashMap::shaped_on_cpu(&options, shape),
        };
        map.fill_from(&mut file)?;
        Ok(map)
    }

    /// Inserts all pairs of a file into an empty map.
    fn fill_from(&self, file: &mut Reader<'_>) -> Result<(), ContainerError> {
        let bytes_of = 8 * self.shape.words();
        while let Some(part) = file.next_part()? {
            let words = |at: usize| {
                part.chunks_exact(bytes_of)
                    .map(move |pair| u64::from_le_bytes(pair[at..at + 8].try_into().expect("eight bytes")))
            };
            let keys: Vec<u64> = words(0).collect();
            let values = if bytes_of == 16 { words(8).collect() } else { vec![0; keys.len()] };
            let answers = self.insert(&keys, &values)?;
            if let Some(answer) = answers.iter().find(|answer| answer.status != MapStatus::Inserted) {
                return Err(match answer.status {
                    MapStatus::Full => warpkeep_device::DeviceError::OutOfBudget {
                        asked: bytes_of as u64 * file.count,
                        left: bytes_of as u64 * self.stats()?.slots,
                    }
                    .into(),
                    _ => file.damaged("it has a key twice"),
                });
            }
        }
        Ok(())
    }
}
