//! Maps in files.

use std::path::Path;

use warpkeep_device::{Device, Result};

use bytemuck::{bytes_of, pod_read_unaligned};

use super::table::{bucket_bytes, loadable};
use super::width::Shape;
use super::{HashMap, HashMapOptions, MapKey, MapStatus, MapValue};
use crate::ContainerError;
use crate::file::{self, FileFormat, FileKind, Reader};

/// What the file of a map or of a set holds. Its bytes are those of the machine's memory, which is little-endian wherever there is CUDA.
const fn format(shape: Shape) -> FileFormat {
    let Shape { key_bytes, value_bytes } = shape;
    let kind = if value_bytes == 0 { FileKind::HASH_SET } else { FileKind::HASH_MAP };
    FileFormat { kind, key_bytes, value_bytes }
}

impl<K: MapKey, V: MapValue> HashMap<K, V> {
    /// Writes all pairs to a file, with checksums. The file is written under another name beside it, made durable and renamed, so after a
    /// crash there is the old file or the new one. Calls that change the map wait until it is written.
    ///
    /// ```
    /// use warpkeep_containers::{HashMap, HashMapOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("ids.map");
    /// let map = HashMap::<u64, u64>::on_cpu(&HashMapOptions::default());
    /// map.insert(&[1, 2], &[10, 20])?;
    /// map.save(&path)?;
    /// let loaded = HashMap::<u64, u64>::load_on_cpu(&path, &HashMapOptions::default())?;
    /// assert_eq!(loaded.find(&[1])?, [Some(10)]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        file::save(path.as_ref(), format(Shape::of::<K, V>()), self.seed, |file| {
            self.try_for_each_part(|pairs| {
                pairs.iter().try_for_each(|(key, value)| file.push(bytes_of(key), bytes_of(value)))
            })
        })
    }

    /// A map in device memory with the pairs of a file, and the seed of the map that was saved, unless the options have one.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if something else was saved; there
    /// is no map then. As for memory that is short if the pairs do not fit: a map that was saved at a load above 0.95 may need twice its
    /// [`most_bytes`](HashMapOptions::most_bytes), because not all of its keys may find a slot when they come in another order.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: &HashMapOptions,
    ) -> Result<Self, ContainerError> {
        Self::load_from(Some(device), path.as_ref(), options)
    }

    /// A map on the CPU with the pairs of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: &HashMapOptions) -> Result<Self, ContainerError> {
        Self::load_from(None, path.as_ref(), options)
    }

    pub(super) fn load_from(
        device: Option<&Device>,
        path: &Path,
        options: &HashMapOptions,
    ) -> Result<Self, ContainerError> {
        let mut file = Reader::open(path, format(Shape::of::<K, V>()))?;
        let options = HashMapOptions {
            items: options.items.max(loadable(file.count, Shape::of::<K, V>(), options.most_bytes)),
            // A seed that is known to all is none: older versions wrote 0 for maps of the CPU.
            seed: options.seed.or(Some(file.word).filter(|seed| *seed != 0)),
            ..options.clone()
        };
        let map = match device {
            Some(device) => HashMap::new(device, &options)?,
            None => HashMap::on_cpu(&options),
        };
        map.fill_from(&mut file)?;
        Ok(map)
    }

    /// Inserts all pairs of a file into an empty map.
    fn fill_from(&self, file: &mut Reader<'_>) -> Result<(), ContainerError> {
        let bytes_of = Shape::of::<K, V>().pair_bytes();
        while let Some(part) = file.next_part()? {
            let pairs = || part.chunks_exact(bytes_of).map(|pair| pair.split_at(size_of::<K>()));
            let keys: Vec<K> = pairs().map(|(key, _)| pod_read_unaligned(key)).collect();
            let values: Vec<V> = pairs().map(|(_, value)| pod_read_unaligned(value)).collect();
            let answers = self.insert(&keys, &values)?;
            if let Some(answer) = answers.iter().find(|answer| answer.status != MapStatus::Inserted) {
                return Err(match answer.status {
                    MapStatus::Full => {
                        let left = self.stats()?.buckets * bucket_bytes(Shape::of::<K, V>());
                        warpkeep_device::DeviceError::OutOfBudget { asked: 2 * left, left }.into()
                    }
                    _ => file.damaged("it has a key twice"),
                });
            }
        }
        Ok(())
    }
}
