//! What maps, sets and multimaps share: a table in device memory or on the CPU.

use warpkeep_device::{Buffer, Device, Event, Program, Stream};

use super::batch::{Columns, DeviceSlabAnswers, DeviceSlabOps};
use super::build::Insertions;
use super::cell::{CellValue, SlabKey};
use super::cpu::CpuTable;
use super::request::{GATHER, RawRequest, SlabAnswer, SlabOpKind};
use super::table::{SlabTable, SlabTableRef};
use crate::slab_alloc::check_column;
use crate::{ContainerError, SlabHashOptions, SlabHashStats};

/// A slab hash from `K` to `V`, in device memory or on the CPU.
#[derive(Debug)]
pub(super) enum SlabHash<K, V> {
    Device(Box<SlabTable>),
    Cpu(CpuTable<K, V>),
}

impl<K: SlabKey<V>, V: CellValue> SlabHash<K, V> {
    pub(super) fn programs(unique: bool) -> Vec<Program> {
        SlabTable::programs(K::CELL, unique)
    }

    pub(super) fn new(
        device: &Device,
        options: SlabHashOptions,
        unique: bool,
    ) -> Result<Self, ContainerError> {
        let options = options.resolved(K::CELL)?;
        Ok(Self::Device(Box::new(SlabTable::new(device, options, K::CELL, unique)?)))
    }

    pub(super) fn on_cpu(options: SlabHashOptions, unique: bool) -> Self {
        Self::Cpu(CpuTable::new(unique, options.capacity))
    }

    pub(super) fn len(&self) -> Result<u64, ContainerError> {
        match self {
            Self::Device(table) => Ok(table.len()?),
            Self::Cpu(table) => Ok(table.len()),
        }
    }

    pub(super) fn stats(&self) -> Result<SlabHashStats, ContainerError> {
        match self {
            Self::Device(table) => Ok(table.stats()?),
            Self::Cpu(table) => Ok(SlabHashStats { len: table.len(), ..SlabHashStats::default() }),
        }
    }

    pub(super) fn reference(&self) -> Result<SlabTableRef, ContainerError> {
        Ok(self.on_device("reference")?.lend())
    }

    pub(super) fn apply(
        &mut self,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>> + Clone,
    ) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        match self {
            Self::Device(table) => Ok(table.apply(requests)?),
            Self::Cpu(table) => Ok(requests.map(|request| table.apply(request)).collect()),
        }
    }

    /// Runs requests of a kind that changes nothing.
    pub(super) fn read(&self, kind: SlabOpKind, keys: &[K]) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        let requests = keys.iter().map(|key| RawRequest::of(kind, *key));
        match self {
            Self::Device(table) => Ok(table.read(requests, None)?),
            Self::Cpu(table) => Ok(requests.map(|request| table.read(request)).collect()),
        }
    }

    pub(super) fn apply_on(
        &mut self,
        ops: &DeviceSlabOps<'_>,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let columns = Columns::of(K::CELL, ops, answers, stream)?;
        match self {
            // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively.
            Self::Device(table) => unsafe { table.apply_on(&columns, stream)? },
            Self::Cpu(_) => return Err(ContainerError::OnCpu { what: "apply_on" }),
        }
        Ok(())
    }

    /// # Safety
    /// Until the event, no other code uses the buffers, except to read the keys, and the table is neither changed nor dropped.
    pub(super) unsafe fn enqueue_search(
        &self,
        keys: &Buffer,
        count: usize,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<Event, ContainerError> {
        let kinds = super::SlabOpKinds::All(SlabOpKind::Search);
        let ops = DeviceSlabOps { kinds, keys, values: None, count };
        let columns = Columns::of(K::CELL, &ops, answers, stream)?;
        // SAFETY: the lengths were checked; the rest is this function's contract.
        Ok(unsafe { self.on_device("enqueue_search")?.enqueue_read(&columns, None, stream)? })
    }

    pub(super) fn build(&mut self, keys: &[K], values: &[V]) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        if keys.len() != values.len() {
            let (given, expected) = (values.len(), keys.len());
            return Err(ContainerError::WrongLength { what: "values", given, expected });
        }
        match self {
            Self::Device(table) => table.build(keys, values),
            Self::Cpu(table) => {
                check_empty(table.len())?;
                let insert = |(key, value): (&K, &V)| {
                    table.apply(RawRequest { value: *value, ..RawRequest::of(SlabOpKind::Insert, *key) })
                };
                Ok(keys.iter().zip(values).map(insert).collect())
            }
        }
    }

    pub(super) fn build_on(
        &mut self,
        keys: &Buffer,
        values: Option<&Buffer>,
        count: usize,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let kinds = super::SlabOpKinds::All(SlabOpKind::Insert);
        let columns = Columns::of(K::CELL, &DeviceSlabOps { kinds, keys, values, count }, answers, stream)?;
        let Columns { keys, values, statuses, found, count, .. } = columns;
        match self {
            Self::Device(table) => {
                let batch = Insertions { keys, values, statuses, found, count };
                // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively.
                unsafe { table.build_on(&batch, stream)? };
            }
            Self::Cpu(_) => return Err(ContainerError::OnCpu { what: "build_on" }),
        }
        Ok(())
    }

    /// All values of each key, in the order in which they were inserted.
    pub(super) fn search_all(&self, keys: &[K]) -> Result<Vec<Vec<V>>, ContainerError> {
        let table = match self {
            Self::Cpu(table) => return Ok(keys.iter().map(|key| table.values(*key)).collect()),
            Self::Device(table) => table,
        };
        let counts = self.read(SlabOpKind::Count, keys)?.into_iter().map(SlabAnswer::count);
        // Where the values of each key begin.
        let mut total = 0;
        let begins = counts.map(|count| {
            let begin = total;
            total += count;
            begin
        });
        let begins: Vec<u64> = begins.collect();
        if total > V::MOST {
            let (what, given, most) = ("values of the keys of one call", total, V::MOST);
            return Err(ContainerError::TooLarge { what, given, most });
        }
        let column = table.device.allocate(size_of::<V>() * total as usize)?;
        let gather =
            |(key, begin): (&K, &u64)| RawRequest { code: GATHER, key: *key, value: V::of_count(*begin) };
        table.read(keys.iter().zip(&begins).map(gather), Some(&column))?;
        let values = column.to_vec::<V>()?;
        let ends = begins.iter().skip(1).copied().chain([total]);
        Ok(begins
            .iter()
            .zip(ends)
            .map(|(begin, end)| values[*begin as usize..end as usize].to_vec())
            .collect())
    }

    /// Writes the values of each key to positions of a column. See [`SlabMultiMap::gather_on`](super::SlabMultiMap::gather_on).
    pub(super) fn gather_on(
        &self,
        keys: &Buffer,
        begins: &Buffer,
        count: usize,
        values: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let table = self.on_device("gather_on")?;
        check_column(keys, size_of::<K>(), count, "keys", stream)?;
        check_column(begins, size_of::<V>(), count, "positions of values", stream)?;
        check_column(values, size_of::<V>(), 0, "values", stream)?;
        let columns = Columns {
            codes: warpkeep_device::DevicePtr::NULL,
            code: GATHER,
            keys: keys.ptr(),
            values: begins.ptr(),
            statuses: warpkeep_device::DevicePtr::NULL,
            found: warpkeep_device::DevicePtr::NULL,
            count,
        };
        // SAFETY: the lengths were checked, and kernels write no further than the last one is long; all are borrowed until the event.
        unsafe { table.enqueue_read(&columns, Some(values), stream)?.synchronize()? };
        Ok(())
    }

    pub(super) fn pairs(&self) -> Result<Vec<(K, V)>, ContainerError> {
        match self {
            Self::Cpu(table) => Ok(table.pairs()),
            Self::Device(table) => {
                let (keys, values) = table.pairs::<K, V>()?;
                Ok(keys.into_iter().zip(values).collect())
            }
        }
    }

    pub(super) fn pairs_on(
        &self,
        keys: &mut Buffer,
        values: Option<&mut Buffer>,
        stream: &Stream,
    ) -> Result<u64, ContainerError> {
        let table = self.on_device("pairs_on")?;
        stream.synchronize()?;
        let len = table.len()?;
        check_column(keys, size_of::<K>(), len as usize, "keys", stream)?;
        let to = match values {
            Some(values) => {
                check_column(values, size_of::<V>(), len as usize, "values", stream)?;
                values.ptr()
            }
            None => warpkeep_device::DevicePtr::NULL,
        };
        // SAFETY: there is room for this many, and both are borrowed exclusively.
        Ok(unsafe { table.list_on(keys.ptr(), to, len, stream)? })
    }

    pub(super) fn reserve(&mut self, pairs: u64) -> Result<(), ContainerError> {
        match self {
            Self::Device(table) => Ok(table.reserve(pairs)?),
            Self::Cpu(_) => Ok(()),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), ContainerError> {
        match self {
            Self::Device(table) => Ok(table.flush()?),
            Self::Cpu(_) => Ok(()),
        }
    }

    pub(super) fn clear(&mut self) -> Result<(), ContainerError> {
        match self {
            Self::Device(table) => table.clear()?,
            Self::Cpu(table) => table.clear(),
        }
        Ok(())
    }

    fn on_device(&self, what: &'static str) -> Result<&SlabTable, ContainerError> {
        match self {
            Self::Device(table) => Ok(table),
            Self::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }
}

/// An error unless a table that is to be built has this many keys: none.
pub(super) fn check_empty(len: u64) -> Result<(), ContainerError> {
    match len {
        0 => Ok(()),
        len => Err(ContainerError::NotEmpty { what: "a bulk build", len }),
    }
}
