//! The kernels of a table, in sets by use, and the constants that they are specialised by.
//!
//! A set is one program, compiled when it is first used, so that a table compiles only what it needs. The `agree`
//! lists are checked when a program is loaded: a kernel that was built with another layout or another constant is
//! refused.

use std::sync::OnceLock;

use warpkeep_core::{KeyCells, KeySpec, MergeRule, Op, Seed, Status, ValueSpec};
use warpkeep_device::{
    Device, DuplicateTable, KernelSet as _, LazyKernels, Partition, PartitionPlan, Program, SmAffinity,
};
use warpkeep_image::Persist;
use warpkeep_record::RecordForm;

use crate::bucket::{Body, Shape};
use crate::gpu::engine::THREADS;
use crate::gpu::params::*;
use crate::gpu::write::params::{
    BlockRun, CopyLevelsParams, EFFECT_BYTES, ExpandParams, FusedParams, MOST_CHUNKS, RedirectParams,
    SEND_THREADS, SortParams, StepParams, WriteSummary,
};
use crate::header::Header;
use crate::slot::{EMPTY, INSERT, REFERENCE_BITS};
use crate::{Geometry, Layout, Table, TableError, TableSpec};

warpkeep_device::kernel_set! {
    /// Gets from the image, and conversion between a caller's rows and rows of whole words.
    pub(crate) struct ReadKernels in "read.cu", prefix "gphash_" {
        get: GetParams,
        unpack: UnpackParams,
        pack: PackParams,
    }
    agree {
        table_bytes = size_of::<TableParams>(),
        max_levels = MAX_LEVELS,
        max_overflows = MAX_OVERFLOWS,
        empty = EMPTY,
        insert = INSERT,
        reference_bits = REFERENCE_BITS,
        special = 1,
        overflow_reach = 4,
        block_threads = THREADS,
        ok = Status::Ok,
        not_found = Status::NotFound,
    }
}

warpkeep_device::kernel_set! {
    /// Gets of keys or values with variable lengths.
    pub(crate) struct VariableKernels in "variable.cu", prefix "gphash_" {
        measure: MeasureParams,
        copy: CopyParams,
    }
}

warpkeep_device::kernel_set! {
    /// The device index: construction, gets, and changes.
    pub(crate) struct IndexKernels in "index.cu", prefix "gphash_" {
        locate: LookupParams,
        scan: Partition,
        partition: LookupParams,
        fetch: LookupParams,
        fall_back: LookupParams,
        get_small: LookupParams,
        scatter: LookupParams,
        host_locate: HostLocateParams,
        collect: CollectParams,
        sort_count: SortParams,
        sort: SortParams,
        build: BuildParams,
        count_entries: CountEntriesParams,
        rehash: RehashParams,
        apply: ApplyParams,
    }
    agree {
        index_bytes = size_of::<IndexParams>(),
        change_bytes = size_of::<IndexChange>(),
        fetch_bytes = size_of::<[u64; 2]>(),
        hit_counters = HIT_COUNTERS,
        scanned_buckets = PartitionPlan::SCANNED_BUCKETS,
        scan_threads = PartitionPlan::SCAN_THREADS,
        partition_head = PartitionPlan::HEAD_WORDS,
        sm_words = SmAffinity::SM_WORDS,
        affinity_bytes = size_of::<SmAffinity>(),
        line_entries = LINE_ENTRIES,
        tombstone = TOMBSTONE,
        busy = BUSY,
        unwritten = u64::from_ne_bytes([UNWRITTEN; 8]),
    }
}

warpkeep_device::kernel_set! {
    /// Writes in two phases.
    pub(crate) struct TwoPhaseKernels in "two_phase.cu", prefix "gphash_" {
        plan: PlanParams,
        stage: StageParams,
        publish: PublishParams,
        abandon: PublishParams,
    }
    agree {
        pending_bytes = size_of::<Pending>(),
        created = Status::Created,
        already_exists = Status::AlreadyExists,
        version_mismatch = Status::VersionMismatch,
        wrong_type = Status::WrongType,
        table_full = Status::TableFull,
        pending = Status::Pending,
        malformed = Status::Malformed,
        op_get = Op::Get,
        op_put = Op::Put,
        op_insert = Op::Insert,
        op_update = Op::Update,
        op_delete = Op::Delete,
        op_compare_and_swap = Op::CompareAndSwap,
        op_fetch_add = Op::FetchAdd,
        op_merge = Op::Merge,
        merge_none = MergeRule::None.code(),
        merge_replace = MergeRule::Replace.code(),
        merge_add_u64 = MergeRule::AddU64.code(),
        merge_max_u64 = MergeRule::MaxU64.code(),
        merge_min_u64 = MergeRule::MinU64.code(),
        merge_add_f32 = MergeRule::AddF32.code(),
        merge_add_f64 = MergeRule::AddF64.code(),
        merge_or = MergeRule::Or.code(),
    }
}

warpkeep_device::kernel_set! {
    /// Fused writes: the device decides and publishes without a round trip to the host.
    pub(crate) struct FusedKernels in "fused.cu", prefix "gphash_" {
        copy_levels: CopyLevelsParams,
        digest: FusedParams,
        dedup: FusedParams,
        decide: FusedParams,
        scan: Partition,
        order_effects: FusedParams,
        write_whole: FusedParams,
        step: StepParams,
        send: StepParams,
        mark_busy: FusedParams,
        set_entries: StepParams,
        expand_runs: ExpandParams,
        sort_count: SortParams,
        sort: SortParams,
    }
    agree {
        dedup_bytes = DuplicateTable::ENTRY_BYTES,
        effect_bytes = EFFECT_BYTES,
        summary_bytes = size_of::<WriteSummary>(),
        block_run_bytes = size_of::<BlockRun>(),
        most_chunks = MOST_CHUNKS,
        send_threads = SEND_THREADS,
    }
}

warpkeep_device::kernel_set! {
    /// Moving items when a table grows, and repair after a lost device.
    pub(crate) struct MaintenanceKernels in "maintenance.cu", prefix "gphash_" {
        drain: DrainParams,
        repair: RepairParams,
    }
}

warpkeep_device::kernel_set! {
    /// The value cache.
    pub(crate) struct ValueKernels in "value_cache.cu", prefix "gphash_values_" {
        count_gets: CountGetsParams,
        histogram: HistogramParams,
        release: ReleaseParams,
        keep: FreeRowsParams,
        free: FreeRowsParams,
        choose: ChooseParams,
        partition: FillParams,
        fill: FillParams,
        redirect: RedirectParams,
    }
    agree {
        params_bytes = size_of::<ValuesParams>(),
        choice_bytes = CHOICE_BYTES,
        in_row = 1_u64 << 63,
        frequencies = FREQUENCIES,
    }
}

#[cfg(test)]
warpkeep_device::kernel_set! {
    /// Readers and writers in one launch.
    pub(crate) struct RaceKernels in "race.cu", prefix "gphash_" {
        race: RaceParams,
    }
}

/// All kernel sets of a table.
#[derive(Debug)]
pub(crate) struct Kernels {
    read: LazyKernels<ReadKernels>,
    variable: LazyKernels<VariableKernels>,
    index: LazyKernels<IndexKernels>,
    two_phase: LazyKernels<TwoPhaseKernels>,
    fused: LazyKernels<FusedKernels>,
    maintenance: LazyKernels<MaintenanceKernels>,
    values: LazyKernels<ValueKernels>,
    resident: OnceLock<Resident>,
}

/// Blocks of these kernels that the device runs at once. More blocks would wait for the first ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub(crate) partition: u32,
    pub(crate) fetch: u32,
}

macro_rules! sets {
    ($($(#[$about:meta])* $set:ident: $kernels:ty),* $(,)?) => {
        impl Kernels {
            /// The kernels of a table with these constants. The set that every table uses is loaded now, so that
            /// opening the table fails if the device cannot compile.
            pub(crate) fn load(device: &Device, constants: &Constants) -> Result<Kernels, TableError> {
                let kernels = Kernels {
                    $($set: LazyKernels::with_constants(device, constants.iter().copied()),)*
                    resident: OnceLock::new(),
                };
                kernels.read()?;
                Ok(kernels)
            }

            /// The programs of all sets with these constants.
            pub(super) fn programs(constants: &Constants) -> Vec<Program> {
                vec![$(<$kernels>::program().with_constants(constants.iter().copied())),*]
            }

            $(
                $(#[$about])*
                #[inline]
                pub(crate) fn $set(&self) -> Result<&$kernels, TableError> {
                    Ok(self.$set.get()?)
                }
            )*
        }
    };
}

sets! {
    /// Every table uses these.
    read: ReadKernels,
    /// For tables whose keys or values have variable lengths.
    variable: VariableKernels,
    /// For tables with a device index.
    index: IndexKernels,
    /// For writes by the device.
    two_phase: TwoPhaseKernels,
    /// For writes by the device, where the index has a key column.
    fused: FusedKernels,
    /// For tables that grow.
    maintenance: MaintenanceKernels,
    /// For tables with a value cache.
    values: ValueKernels,
}

impl Kernels {
    /// Blocks that the device runs at once.
    pub(crate) fn resident(&self) -> Result<Resident, TableError> {
        if let Some(resident) = self.resident.get() {
            return Ok(*resident);
        }
        let index = self.index()?;
        let resident = Resident {
            partition: index.partition.resident_blocks(THREADS, 0)?.max(1),
            fetch: index.fetch.resident_blocks(THREADS, 0)?.max(1),
        };
        Ok(*self.resident.get_or_init(|| resident))
    }
}

/// Lengths and geometry of a table, as compile-time constants.
pub(crate) type Constants = [(&'static str, u64); 9];

/// The programs of all kernel sets for new tables of one kind; `None` if no device can work such tables, whose keys
/// or values have variable lengths and are stored in place.
pub fn programs_for(
    geometry: Geometry,
    layout: Layout,
    key: KeySpec,
    value: ValueSpec,
) -> Option<Vec<Program>> {
    constants_for(geometry, layout, key, value).map(|constants| Kernels::programs(&constants))
}

pub(crate) fn constants_for(
    geometry: Geometry,
    layout: Layout,
    key: KeySpec,
    value: ValueSpec,
) -> Option<Constants> {
    let spec = TableSpec { key, value, geometry, capacity: 0, layout, merge: MergeRule::None, seed: Seed(0) };
    let header = Header::of(&spec);
    constants(geometry, layout, (key, header.cells), value, header.form())
}

pub(crate) fn constants_of<P: Persist>(table: &Table<P>) -> Option<Constants> {
    constants(table.geometry, table.layout, (table.key, table.key_cells()), table.value, table.form)
}

/// Bytes of a record's tail in its tile; 0 if records are not stored in tiles.
pub(crate) fn tail_len(form: RecordForm) -> u64 {
    form.tile().map_or(0, warpkeep_image::Tile::tail)
}

fn constants(
    geometry: Geometry,
    layout: Layout,
    (key, cells): (KeySpec, Option<KeyCells>),
    value: ValueSpec,
    form: RecordForm,
) -> Option<Constants> {
    let key_len = cells.map(KeyCells::row_len).or_else(|| key.fixed_len());
    let variable = key_len.is_none() || value.fixed_len().is_none();
    let body = Shape::new(geometry, layout, key, value).body;
    if variable && body != Body::Packed {
        return None;
    }
    Some([
        ("GPHASH_HASHES", geometry.hashes() as u64),
        ("GPHASH_SLOTS", geometry.slots() as u64),
        ("GPHASH_BODY", u64::from(body_code(body))),
        ("GPHASH_KEY_LEN", key_len.unwrap_or_default() as u64),
        ("GPHASH_VALUE_LEN", value.fixed_len().unwrap_or_default() as u64),
        ("GPHASH_VARIABLE", u64::from(variable)),
        ("GPHASH_TAIL_LEN", tail_len(form)),
        ("GPHASH_LONGEST", cells.map_or(0, |cells| cells.max_len() as u64)),
        ("GPHASH_CHECKSUMS", u64::from(form.has_checksums())),
    ])
}

#[cfg(test)]
mod tests {
    #[cfg(not(no_simulator))]
    use warpkeep_device::KernelCache;

    use super::*;

    #[test]
    #[cfg(not(no_simulator))]
    fn kernels_and_host_agree() {
        let device = Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let value = ValueSpec::fixed(128).unwrap();
        let programs = programs_for(Geometry::default(), Layout::Packed, KeySpec::U64, value).unwrap();
        // Loading compares both sides.
        for program in &programs {
            device.load_with(program, &KernelCache::none()).unwrap();
        }
        assert_eq!(programs.len(), 7);
        assert!(programs.iter().map(|program| program.agreements.len()).sum::<usize>() > 50);
    }

    #[test]
    fn variable_lengths_need_the_packed_layout() {
        let (fixed, variable) = (ValueSpec::fixed(8).unwrap(), ValueSpec::variable(8).unwrap());
        let keys = KeySpec::variable(8).unwrap();
        let programs = |layout, key, value| programs_for(Geometry::default(), layout, key, value);
        for (key, value) in [(KeySpec::U64, variable), (keys, fixed), (keys, variable)] {
            assert!(programs(Layout::Packed, key, value).is_some());
        }
        assert!(programs(Layout::InPlace, KeySpec::U64, variable).is_none());
    }
}
