//! Indexes in files: all cells, as they are.

use std::path::Path;

use warpkeep_device::{Device, Result};

use super::cpu::CpuIndex;
use super::device::DeviceIndex;
use super::kernels::{CELLS, LEAST_BITS, MOST_BITS};
use super::layout::{Layout, entry};
use super::{CuckooIndex, CuckooIndexOptions, Kind};
use crate::ContainerError;
use crate::file::{self, FileFormat, FileKind, Reader};

/// Buckets that are read from the device at once.
const CHUNK: u64 = 1 << 16;
/// A record is a cell: the signature, and the location plus one. An index has only a part of each hash, so that all cells are kept where they
/// are, the empty ones as well. The word of the header is the number of buckets.
const FORMAT: FileFormat = FileFormat { kind: FileKind::CUCKOO_INDEX, key_bytes: 4, value_bytes: 4 };

impl CuckooIndex {
    /// Writes the index to a file, with checksums. The file is written under another name beside it, made durable and renamed, so after a
    /// crash there is the old file or the new one. Calls that change the index wait until it is written.
    ///
    /// ```
    /// use warpkeep_containers::{CuckooIndex, CuckooIndexOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("rows.index");
    /// let index = CuckooIndex::on_cpu(&CuckooIndexOptions::default().items(1000))?;
    /// index.insert(&[7 << 32, 8 << 32], &[10, 20])?;
    /// index.save(&path)?;
    /// let loaded = CuckooIndex::load_on_cpu(&path)?;
    /// assert_eq!(loaded.search(&[8 << 32])?[0].locations(), [20]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        let layout = self.layout();
        file::save(path.as_ref(), FORMAT, layout.buckets(), |file| {
            let mut write = |cells: &[[u64; CELLS]]| {
                cells.iter().flatten().try_for_each(|cell| file.push(&cell.to_le_bytes(), &[]))
            };
            match &self.kind {
                Kind::Cpu(index) => write(&index.lock().buckets),
                Kind::Device(index) => {
                    let (table, mut cells) = (index.read(), Vec::new());
                    for first in (0..layout.buckets()).step_by(CHUNK as usize) {
                        let count = (layout.buckets() - first).min(CHUNK);
                        cells.resize(count as usize, [0_u64; CELLS]);
                        table.cells.read(8 * CELLS * first as usize, &mut cells)?;
                        write(&cells)?;
                    }
                    Ok(())
                }
            }
        })
    }

    /// An index in device memory with the entries of a file, and as many buckets as the saved one had. Of the options only
    /// [`staged`](CuckooIndexOptions::staged) matters.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if something else was saved; there
    /// is no index then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: &CuckooIndexOptions,
    ) -> Result<CuckooIndex, ContainerError> {
        let mut file = Reader::open(path.as_ref(), FORMAT)?;
        let layout = layout_of(&file)?;
        let index = DeviceIndex::new(device, layout, options.staged)?;
        {
            let (table, mut at, mut len) = (index.write(), 0, 0);
            while let Some(cells) = next_cells(&mut file)? {
                table.cells.write(at, &cells)?;
                at += 8 * cells.len();
                len += cells.iter().filter(|cell| **cell != 0).count() as u64;
            }
            table.control.write(0, &[len])?;
        }
        Ok(CuckooIndex { kind: Kind::Device(Box::new(index)) })
    }

    /// An index on the CPU with the entries of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>) -> Result<CuckooIndex, ContainerError> {
        let mut file = Reader::open(path.as_ref(), FORMAT)?;
        let index = CpuIndex::new(layout_of(&file)?)?;
        {
            let (mut there, mut at) = (index.lock(), 0);
            while let Some(cells) = next_cells(&mut file)? {
                there.buckets.as_flattened_mut()[at..at + cells.len()].copy_from_slice(&cells);
                at += cells.len();
                there.len += cells.iter().filter(|cell| **cell != 0).count() as u64;
            }
        }
        Ok(CuckooIndex { kind: Kind::Cpu(index) })
    }
}

fn layout_of(file: &Reader<'_>) -> Result<Layout, ContainerError> {
    let is_size = file.word.is_power_of_two() && (LEAST_BITS..=MOST_BITS).contains(&file.word.ilog2());
    if !is_size || file.count != CELLS as u64 * file.word {
        let what = format!("it has {} cells and says that it has {} buckets", file.count, file.word);
        return Err(file.damaged(&what));
    }
    Ok(Layout { mask: file.word - 1 })
}

/// The next cells, each of which is empty or has an entry.
fn next_cells(file: &mut Reader<'_>) -> Result<Option<Vec<u64>>, ContainerError> {
    let Some(part) = file.next_part()? else { return Ok(None) };
    let cells = part.chunks_exact(8).map(|cell| u64::from_le_bytes(cell.try_into().expect("eight bytes")));
    let cells: Vec<u64> = cells.collect();
    if cells.iter().any(|cell| *cell != 0 && entry(*cell).is_none()) {
        return Err(file.damaged("a cell has a signature and no location"));
    }
    Ok(Some(cells))
}
