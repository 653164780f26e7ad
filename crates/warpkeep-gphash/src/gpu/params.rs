//! What kernels are given: the structs of `kernels/*.h`, byte for byte.

use std::sync::atomic::Ordering;

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;

use super::homes::Homes;
use super::regions::Regions;
use crate::Table;
use crate::bucket::Body;
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

/// Pairs of counters that warps spread what they count over.
pub(crate) const TALLIES: usize = 64;

/// Entries of a bucket of a mirror.
pub(crate) const MIRROR_ENTRIES: u64 = 4;
/// What an entry of a mirror says of a key that was removed; and of one that the image is to be asked for. Records lie further on.
pub(crate) const GONE: u64 = 1;
pub(crate) const VEILED: u64 = 4;
/// What there is before a key is written beside an entry: nothing that words of keys often are.
pub(crate) const UNWRITTEN: u8 = 0xb7;

/// The values of some keys; null if there are none.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ValuesParams {
    pub(crate) rows: DevicePtr,
    pub(crate) tails: DevicePtr,
    pub(crate) tallies: DevicePtr,
}

impl ValuesParams {
    pub(crate) const NONE: ValuesParams =
        ValuesParams { rows: DevicePtr::NULL, tails: DevicePtr::NULL, tallies: DevicePtr::NULL };
}

/// Words beside a row of the value cache, for keys of so many bytes: the record, the version, and keys that are not their hashes.
pub(crate) fn tail_words(key_len: usize) -> usize {
    if key_len == 8 { 2 } else { 2 + key_len.div_ceil(8).next_multiple_of(2) }
}

/// How hot an entry of a mirror can be.
pub(crate) const HEATS: usize = 256;

/// The record of each key; null if there is no mirror.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct MirrorParams {
    pub(crate) entries: DevicePtr,
    pub(crate) buckets: u64,
    pub(crate) unplaced: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) values: ValuesParams,
}

impl MirrorParams {
    pub(crate) const NONE: MirrorParams = MirrorParams {
        entries: DevicePtr::NULL,
        buckets: 0,
        unplaced: DevicePtr::NULL,
        keys: DevicePtr::NULL,
        values: ValuesParams::NONE,
    };
}

/// A table, at this moment.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct TableParams {
    pub(crate) image: DevicePtr,
    seed: u64,
    specials: u64,
    levels: u32,
    open_first: u32,
    open_count: u32,
    drained_first: u32,
    drained_count: u32,
    overflows: u32,
    look_in_overflow: u32,
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
    pub(crate) mirror: MirrorParams,
}

/// The code of what a slot holds.
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
            specials: table.specials().map_or(0, |specials| specials.offset),
            levels: levels.levels.len() as u32,
            open_first: open_first as u32,
            open_count: open_count as u32,
            drained_first: drained_first as u32,
            drained_count: levels.drained as u32,
            overflows: levels.overflows().count() as u32,
            look_in_overflow: u32::from(table.in_overflow.load(Ordering::Acquire) > 0),
            hashes: table.geometry.hashes() as u32,
            slots: table.geometry.slots() as u32,
            body: body_code(table.shape.body),
            key_len: table.key_row_len().unwrap_or_default() as u32,
            value_len: table.value.fixed_len().unwrap_or_default() as u32,
            merge_rule: u32::from(table.merge_rule().code()),
            variable: u32::from(table.key_row_len().is_none() || table.value.fixed_len().is_none()),
            tail_len: super::program::tail_len(table.form) as u32,
            longest: table.key_cells().map_or(0, |cells| cells.max_len() as u32),
            checksums: u32::from(table.form.has_checksums()),
            reserved: 0,
            level: runs(levels.levels.iter()),
            overflow: runs(levels.overflows()),
            mirror: MirrorParams::NONE,
        }
    }

    /// The same, with a mirror.
    pub(crate) fn reflected(self, mirror: MirrorParams) -> TableParams {
        TableParams { mirror, ..self }
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
    pub(crate) left: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct PlanParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) places: DevicePtr,
    pub(crate) place_mask: u64,
    pub(crate) left: DevicePtr,
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
    pub(crate) asked: DevicePtr,
    pub(crate) asks: DevicePtr,
    pub(crate) located: DevicePtr,
    pub(crate) regions: Regions,
    pub(crate) fetchings: DevicePtr,
    pub(crate) wide: u64,
    pub(crate) homes: Homes,
    pub(crate) cleans: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct PointParams {
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
pub(crate) struct ReflectParams {
    pub(crate) table: TableParams,
    pub(crate) records: DevicePtr,
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct CensusParams {
    pub(crate) mirror: MirrorParams,
    pub(crate) counts: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RehashParams {
    pub(crate) from: MirrorParams,
    pub(crate) to: MirrorParams,
    pub(crate) from_heat: DevicePtr,
    pub(crate) to_heat: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct WarmParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) heat: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct WeighParams {
    pub(crate) table: TableParams,
    pub(crate) heat: DevicePtr,
    pub(crate) weights: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ReleaseParams {
    pub(crate) table: TableParams,
    pub(crate) heat: DevicePtr,
    pub(crate) enough: u64,
    pub(crate) ties: u64,
    pub(crate) tied: DevicePtr,
    pub(crate) used: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SpareParams {
    pub(crate) count: u64,
    pub(crate) used: DevicePtr,
    pub(crate) spare_count: DevicePtr,
    pub(crate) spares: DevicePtr,
}

/// Bytes of an entry that was chosen to get a row.
pub(crate) const CHOICE_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ChooseParams {
    pub(crate) table: TableParams,
    pub(crate) heat: DevicePtr,
    pub(crate) coldest: u64,
    pub(crate) hottest: u64,
    pub(crate) room: u64,
    pub(crate) chosen: DevicePtr,
    pub(crate) choices: DevicePtr,
    pub(crate) ranks: DevicePtr,
    pub(crate) regions: Regions,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct FillParams {
    pub(crate) get: GetParams,
    pub(crate) count: u64,
    pub(crate) choices: DevicePtr,
    pub(crate) ranks: DevicePtr,
    pub(crate) regions: Regions,
    pub(crate) ordered: DevicePtr,
    pub(crate) spares: DevicePtr,
    pub(crate) wide: u64,
}

/// What the CPU has given a key: a record, or 0 if the key is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Told {
    pub(crate) hash: u64,
    pub(crate) record: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct TellParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) told: DevicePtr,
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
    pub(crate) stuck: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RepairParams {
    pub(crate) table: TableParams,
    pub(crate) run: Run,
    pub(crate) items: DevicePtr,
    pub(crate) cleared: DevicePtr,
}

/// Readers and publishers in one launch.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RaceParams {
    pub(crate) plain: GetParams,
    pub(crate) get: GetParams,
    pub(crate) publish: PublishParams,
    pub(crate) fill: FillParams,
    pub(crate) tell: DevicePtr,
    pub(crate) beat: DevicePtr,
    pub(crate) arrived: DevicePtr,
    pub(crate) statuses_again: DevicePtr,
    pub(crate) versions_again: DevicePtr,
    pub(crate) values_again: DevicePtr,
    pub(crate) readers: u64,
    pub(crate) publishers: u64,
    pub(crate) fillers: u64,
    pub(crate) beaters: u64,
    pub(crate) tellers: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SpreadParams {
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

/// A change that is staged.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Pending {
    pub(crate) at: u64,
    pub(crate) word: u64,
    /// The record that goes, or 0.
    pub(crate) old: u64,
    flags: u32,
    reserved: u32,
}

/// What becomes of a slot.
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
