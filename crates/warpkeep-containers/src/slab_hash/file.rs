//! Slab hashes in files.

use std::path::Path;

use warpkeep_device::{Device, DeviceError};

use super::body::SlabHash;
use super::cell::{CellValue, SlabKey};
use super::request::SlabAnswer;
use crate::file::{self, FileFormat, FileKind, Reader};
use crate::{ContainerError, SlabHashOptions};

impl<K: SlabKey<V>, V: CellValue> SlabHash<K, V> {
    fn format(kind: FileKind) -> FileFormat {
        FileFormat { kind, key_bytes: size_of::<K>() as u8, value_bytes: size_of::<V>() as u8 }
    }

    /// Writes all pairs to a file; the values of a key in their order.
    pub(super) fn save(&self, path: &Path, kind: FileKind) -> Result<(), ContainerError> {
        let pairs = self.pairs()?;
        file::save(path, Self::format(kind), 0, |file| {
            // All platforms that have a GPU are little-endian, as files are.
            pairs
                .iter()
                .try_for_each(|(key, value)| file.push(bytemuck::bytes_of(key), bytemuck::bytes_of(value)))
        })
    }

    /// A slab hash with the pairs of a file, in device memory if a device is given.
    pub(super) fn load(
        device: Option<&Device>,
        path: &Path,
        kind: FileKind,
        options: SlabHashOptions,
        unique: bool,
    ) -> Result<Self, ContainerError> {
        let mut file = Reader::open(path, Self::format(kind))?;
        if file.word != 0 {
            return Err(file.damaged("its header has a number that this program does not know"));
        }
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while let Some(part) = file.next_part()? {
            for record in part.chunks_exact(size_of::<K>() + size_of::<V>()) {
                let (key, value) = record.split_at(size_of::<K>());
                keys.push(bytemuck::pod_read_unaligned::<K>(key));
                values.push(bytemuck::pod_read_unaligned::<V>(value));
            }
        }
        let options = SlabHashOptions { capacity: options.capacity.max(file.count), ..options };
        let mut hash = match device {
            Some(device) => Self::new(device, options, unique)?,
            None => Self::on_cpu(options, unique),
        };
        let answers = hash.build(&keys, &values)?;
        if let Self::Device(table) = &mut hash {
            // A table that was loaded is seldom built again.
            table.free_scratch();
        }
        match answers.iter().find(|answer| **answer != SlabAnswer::Inserted) {
            None => Ok(hash),
            Some(SlabAnswer::Full) => {
                let each = (size_of::<K>() + size_of::<V>()) as u64;
                let (asked, left) = (each * file.count, each * hash.len()?);
                Err(DeviceError::OutOfBudget { asked, left }.into())
            }
            Some(_) => Err(file.damaged("it has a key twice")),
        }
    }
}
