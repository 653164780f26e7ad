//! The parameters of kernels: the structs of `kernels/`, byte for byte. Where both sides must agree on a size or a
//! constant, `kernels.rs` checks it when a program is loaded.

use std::sync::atomic::Ordering;

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_device::{DevicePtr, Partition, SmAffinity};
use warpkeep_image::Persist;

use crate::Table;
use crate::bucket::Body;
use crate::gpu::kernels::tail_len;
use crate::levels::{Level, Levels};

pub(crate) const MAX_LEVELS: usize = 16;
pub(crate) const MAX_OVERFLOWS: usize = 9;

/// A level or an overflow.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) buckets: u64,
}

impl From<&Level> for Run {
    fn from(level: &Level) -> Run {
        Run { offset: level.offset, buckets: level.buckets }
    }
}

/// Pairs of hit counters, so that warps rarely add to the same one.
pub(crate) const HIT_COUNTERS: usize = 64;

/// Entries of a line of a device index.
pub(crate) const LINE_ENTRIES: u64 = 4;
/// Entry values that are no records, which have larger offsets: the key was removed; the reader has to fall back to
/// the image.
pub(crate) const TOMBSTONE: u64 = 1;
pub(crate) const BUSY: u64 = 4;
/// The fill pattern of the key column, before a key is written: a byte that words of keys rarely consist of.
pub(crate) const UNWRITTEN: u8 = 0xb7;

/// The rows of the value cache; null if there is none.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ValuesParams {
    pub(crate) rows: DevicePtr,
    pub(crate) tails: DevicePtr,
    pub(crate) hit_counters: DevicePtr,
}

impl ValuesParams {
    pub(crate) const NONE: ValuesParams =
        ValuesParams { rows: DevicePtr::NULL, tails: DevicePtr::NULL, hit_counters: DevicePtr::NULL };
}

/// Words of the tail of a row of the value cache: the record, the version, and keys longer than their hashes.
pub(crate) fn tail_words(key_len: usize) -> usize {
    if key_len == 8 { 2 } else { 2 + key_len.div_ceil(8).next_multiple_of(2) }
}

/// Values of a frequency counter.
pub(crate) const FREQUENCIES: usize = 256;

/// The device index; null if there is none.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct IndexParams {
    pub(crate) entries: DevicePtr,
    pub(crate) lines: u64,
    pub(crate) unplaced: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) values: ValuesParams,
}

impl IndexParams {
    pub(crate) const NONE: IndexParams = IndexParams {
        entries: DevicePtr::NULL,
        lines: 0,
        unplaced: DevicePtr::NULL,
        keys: DevicePtr::NULL,
        values: ValuesParams::NONE,
    };
}

/// A table, as it is when the kernel is launched.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct TableParams {
    pub(crate) image: DevicePtr,
    seed: u64,
    special_slots: u64,
    levels: u32,
    open_first: u32,
    open_count: u32,
    drained_first: u32,
    drained_count: u32,
    overflows: u32,
    overflow_in_use: u32,
    hashes: u32,
    slots: u32,
    body: u32,
    key_len: u32,
    pub(crate) value_len: u32,
    merge_rule: u32,
    variable: u32,
    tail_len: u32,
    longest: u32,
    checksums: u32,
    reserved: u32,
    level: [Run; MAX_LEVELS],
    overflow: [Run; MAX_OVERFLOWS],
    pub(crate) index: IndexParams,
}

/// The code of the contents of a slot.
pub(crate) fn body_code(body: Body) -> u32 {
    match body {
        Body::Packed => 0,
        Body::Inline { .. } => 1,
        Body::Reference => 2,
    }
}

fn runs<'l, const N: usize>(levels: impl Iterator<Item = &'l Level>) -> [Run; N] {
    let mut runs = [Run::default(); N];
    for (run, level) in runs.iter_mut().zip(levels) {
        *run = level.into();
    }
    runs
}

impl TableParams {
    pub(crate) fn new<P: Persist>(table: &Table<P>, levels: &Levels, image: DevicePtr) -> TableParams {
        let open_count = levels.levels.len() - levels.drained;
        let (open_first, drained_first) =
            if levels.shrinking { (levels.drained, 0) } else { (0, open_count) };
        TableParams {
            image,
            seed: table.seed.0,
            special_slots: table.specials().map_or(0, |specials| specials.offset),
            levels: levels.levels.len() as u32,
            open_first: open_first as u32,
            open_count: open_count as u32,
            drained_first: drained_first as u32,
            drained_count: levels.drained as u32,
            overflows: levels.overflows().count() as u32,
            overflow_in_use: u32::from(table.in_overflow.load(Ordering::Acquire) > 0),
            hashes: table.geometry.hashes() as u32,
            slots: table.geometry.slots() as u32,
            body: body_code(table.shape.body),
            key_len: table.key_row_len().unwrap_or_default() as u32,
            value_len: table.value.fixed_len().unwrap_or_default() as u32,
            merge_rule: u32::from(table.merge_rule().code()),
            variable: u32::from(table.key_row_len().is_none() || table.value.fixed_len().is_none()),
            tail_len: tail_len(table.form) as u32,
            longest: table.key_cells().map_or(0, |cells| cells.max_len() as u32),
            checksums: u32::from(table.form.has_checksums()),
            reserved: 0,
            level: runs(levels.levels.iter()),
            overflow: runs(levels.overflows()),
            index: IndexParams::NONE,
        }
    }

    /// The same, with a device index.
    pub(crate) fn with_index(self, index: IndexParams) -> TableParams {
        TableParams { index, ..self }
    }
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct GetParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) versions: DevicePtr,
    pub(crate) values: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct StageParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) ops: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) arguments: DevicePtr,
    pub(crate) blocks: DevicePtr,
    pub(crate) first_version: u64,
    pub(crate) statuses: DevicePtr,
    pub(crate) versions: DevicePtr,
    pub(crate) answers: DevicePtr,
    pub(crate) pending: DevicePtr,
    pub(crate) is_fallback: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct PlanParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) hash_slots: DevicePtr,
    pub(crate) hash_mask: u64,
    pub(crate) is_fallback: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct PublishParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) pending: DevicePtr,
    pub(crate) keys: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct LookupParams {
    pub(crate) get: GetParams,
    pub(crate) fallback_count: DevicePtr,
    pub(crate) fallbacks: DevicePtr,
    pub(crate) located: DevicePtr,
    pub(crate) partition: Partition,
    pub(crate) fetches: DevicePtr,
    pub(crate) wide: u64,
    pub(crate) affinity: SmAffinity,
    pub(crate) clear_count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct HostLocateParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) records: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct CollectParams {
    pub(crate) table: TableParams,
    pub(crate) run: Run,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) records: DevicePtr,
    pub(crate) items: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct BuildParams {
    pub(crate) table: TableParams,
    pub(crate) records: DevicePtr,
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct CountEntriesParams {
    pub(crate) index: IndexParams,
    pub(crate) counts: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RehashParams {
    pub(crate) from: IndexParams,
    pub(crate) to: IndexParams,
    pub(crate) from_frequencies: DevicePtr,
    pub(crate) to_frequencies: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct CountGetsParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) frequencies: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct HistogramParams {
    pub(crate) table: TableParams,
    pub(crate) frequencies: DevicePtr,
    pub(crate) histogram: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ReleaseParams {
    pub(crate) table: TableParams,
    pub(crate) frequencies: DevicePtr,
    pub(crate) threshold: u64,
    pub(crate) ties_kept: u64,
    pub(crate) tie_count: DevicePtr,
    pub(crate) used: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct FreeRowsParams {
    pub(crate) count: u64,
    pub(crate) used: DevicePtr,
    pub(crate) free_count: DevicePtr,
    pub(crate) free_rows: DevicePtr,
}

/// Bytes of an entry that was chosen to get a row.
pub(crate) const CHOICE_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ChooseParams {
    pub(crate) table: TableParams,
    pub(crate) frequencies: DevicePtr,
    pub(crate) min_frequency: u64,
    pub(crate) max_frequency: u64,
    pub(crate) capacity: u64,
    pub(crate) chosen_count: DevicePtr,
    pub(crate) choices: DevicePtr,
    pub(crate) ranks: DevicePtr,
    pub(crate) partition: Partition,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct FillParams {
    pub(crate) get: GetParams,
    pub(crate) count: u64,
    pub(crate) choices: DevicePtr,
    pub(crate) ranks: DevicePtr,
    pub(crate) partition: Partition,
    pub(crate) ordered: DevicePtr,
    pub(crate) free_rows: DevicePtr,
    pub(crate) wide: u64,
}

/// A change that the CPU made: the key's record, or 0 if the key was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct IndexChange {
    pub(crate) hash: u64,
    pub(crate) record: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ApplyParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) changes: DevicePtr,
    pub(crate) removed: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct DrainParams {
    pub(crate) table: TableParams,
    pub(crate) run: Run,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) moved: DevicePtr,
    pub(crate) overflowed: DevicePtr,
    pub(crate) unplaced: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RepairParams {
    pub(crate) table: TableParams,
    pub(crate) run: Run,
    pub(crate) items: DevicePtr,
    pub(crate) cleared: DevicePtr,
}

/// Readers beside one writer of each kind, in one launch.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RaceParams {
    pub(crate) image_get: GetParams,
    pub(crate) index_get: GetParams,
    pub(crate) publish: PublishParams,
    pub(crate) fill: FillParams,
    pub(crate) apply: DevicePtr,
    pub(crate) step: DevicePtr,
    pub(crate) readers_done: DevicePtr,
    pub(crate) second_statuses: DevicePtr,
    pub(crate) second_versions: DevicePtr,
    pub(crate) second_values: DevicePtr,
    pub(crate) readers: u64,
    pub(crate) publishers: u64,
    pub(crate) fillers: u64,
    pub(crate) steppers: u64,
    pub(crate) appliers: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct UnpackParams {
    pub(crate) count: u64,
    pub(crate) from: DevicePtr,
    pub(crate) to: DevicePtr,
    pub(crate) len: u32,
    pub(crate) words: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct PackParams {
    pub(crate) count: u64,
    pub(crate) from: DevicePtr,
    pub(crate) to: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) ops: DevicePtr,
    pub(crate) len: u32,
    pub(crate) words: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct MeasureParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) begins: DevicePtr,
    pub(crate) lengths: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) versions: DevicePtr,
    pub(crate) values_at: DevicePtr,
    pub(crate) value_lengths: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct CopyParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) values_at: DevicePtr,
    pub(crate) value_lengths: DevicePtr,
    pub(crate) to: DevicePtr,
    pub(crate) values: DevicePtr,
}

/// A staged change of a slot.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Pending {
    pub(crate) at: u64,
    pub(crate) word: u64,
    /// The record that is replaced or removed, or 0.
    pub(crate) old: u64,
    flags: u32,
    reserved: u32,
}

/// The effect of a staged change on its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingKind {
    None,
    Fill,
    Replace,
    Clear,
}

impl Pending {
    pub(crate) fn kind(&self) -> PendingKind {
        match self.flags & 0xff {
            1 => PendingKind::Fill,
            2 => PendingKind::Replace,
            3 => PendingKind::Clear,
            _ => PendingKind::None,
        }
    }

    pub(crate) fn in_overflow(&self) -> bool {
        self.flags & 0x100 != 0
    }

    pub(crate) fn block_used(&self) -> bool {
        self.flags & 0x200 != 0
    }
}
