//! Maps in files.

use std::path::Path;

use warpkeep_device::{Device, Result};

use super::key::{OrderedKey, OrderedWord};
use super::{OrderedMap, OrderedMapOptions, OrderedSnapshot};
use crate::ContainerError;
use crate::file::{self, FileFormat, FileKind, Reader};

/// What the file of a map with these keys and values holds.
const fn format<K, V>() -> FileFormat {
    FileFormat {
        kind: FileKind::ORDERED_MAP,
        key_bytes: size_of::<K>() as u8,
        value_bytes: size_of::<V>() as u8,
    }
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedSnapshot<K, V> {
    /// Writes all pairs to a file in the order of their keys, with checksums. The file is written under another name beside it, made durable and
    /// renamed, so after a crash there is the old file or the new one. The map may change meanwhile.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        file::save(path.as_ref(), format::<K, V>(), 0, |file| {
            self.try_for_each_part(|pairs| {
                pairs.iter().try_for_each(|(key, value)| {
                    // Little-endian, as the device and the host are.
                    file.push(bytemuck::bytes_of(key), bytemuck::bytes_of(value))
                })
            })
        })
    }
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// As [`OrderedSnapshot::save`], of the state now.
    ///
    /// ```
    /// use warpkeep_containers::{OrderedMap, OrderedMapOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("ticks.map");
    /// let map = OrderedMap::<u64, u64>::on_cpu(&OrderedMapOptions::default());
    /// map.insert(&[2, 1], &[20, 10])?;
    /// map.save(&path)?;
    /// let loaded = OrderedMap::<u64, u64>::load_on_cpu(&path, &OrderedMapOptions::default())?;
    /// assert_eq!(loaded.retrieve_all()?, [(1, 10), (2, 20)]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.snapshot().save(path)
    }

    /// A map in device memory with the pairs of a file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if something else was saved; there
    /// is no map then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: &OrderedMapOptions,
    ) -> Result<Self, ContainerError> {
        let mut file = Reader::open(path.as_ref(), format::<K, V>())?;
        let map = Self::new(device, options)?;
        map.fill_from(&mut file)?;
        Ok(map)
    }

    /// A map on the CPU with the pairs of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: &OrderedMapOptions) -> Result<Self, ContainerError> {
        let mut file = Reader::open(path.as_ref(), format::<K, V>())?;
        let map = Self::on_cpu(options);
        map.fill_from(&mut file)?;
        Ok(map)
    }

    /// Puts all pairs of a file into an empty map.
    fn fill_from(&self, file: &mut Reader<'_>) -> Result<(), ContainerError> {
        let mut last = None;
        while let Some(part) = file.next_part()? {
            let pairs = part.chunks_exact(size_of::<K>() + size_of::<V>());
            let (keys, values): (Vec<K>, Vec<V>) = pairs
                .map(|pair| {
                    let (key, value) = pair.split_at(size_of::<K>());
                    (bytemuck::pod_read_unaligned::<K>(key), bytemuck::pod_read_unaligned::<V>(value))
                })
                .unzip();
            let is_ascending = last.is_none_or(|last| keys.first().is_none_or(|key| last < *key));
            if !is_ascending || keys.windows(2).any(|two| two[0] >= two[1]) {
                return Err(file.damaged("its keys are not in ascending order"));
            }
            last = keys.last().copied();
            self.fill_sorted(&keys, &values)?;
        }
        Ok(())
    }
}
