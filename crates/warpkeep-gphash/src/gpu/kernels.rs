//! The kernels, in sets by use: a table compiles those that it needs.

use std::sync::OnceLock;

use warpkeep_core::{MergeRule, Op, Status};
use warpkeep_device::{Device, KernelSet as _, LazyKernels, Program};

use super::engine::THREADS;
use super::homes::{HOME_WORDS, Homes};
use super::params::*;
use super::program::Constants;
use super::regions::{HEAD, LINED_UP, Regions, SCAN_THREADS};
use super::straight::params::{
    ACT_BYTES, BeatParams, BlockRun, Came, ENROLLED_BYTES, FollowParams, MOST_PARTS, RecopyParams,
    SEND_THREADS, SortParams, SpellParams, StraightParams,
};
use crate::TableError;
use crate::slot::{EMPTY, INSERT, REFERENCE_BITS};

warpkeep_device::kernel_set! {
    /// Gets from the image, and rows of a caller's as kernels have them.
    pub(crate) struct ReadKernels in "read.cu", prefix "gphash_" {
        get: GetParams,
        spread: SpreadParams,
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
    /// Gets of keys or values of any length.
    pub(crate) struct VariableKernels in "variable.cu", prefix "gphash_" {
        measure: MeasureParams,
        copy: CopyParams,
    }
}

warpkeep_device::kernel_set! {
    /// The device index: building it, gets through it, and changes of it.
    pub(crate) struct IndexKernels in "index.cu", prefix "gphash_" {
        locate: LookupParams,
        line_up: Regions,
        order: LookupParams,
        fetch: LookupParams,
        ask: LookupParams,
        few: LookupParams,
        deal: LookupParams,
        point: PointParams,
        collect: CollectParams,
        sort_count: SortParams,
        sort: SortParams,
        reflect: ReflectParams,
        census: CensusParams,
        rehash: RehashParams,
        tell: TellParams,
    }
    agree {
        mirror_bytes = size_of::<MirrorParams>(),
        told_bytes = size_of::<Told>(),
        fetching_bytes = size_of::<[u64; 2]>(),
        tallies = TALLIES,
        lined_up = LINED_UP,
        scan_threads = SCAN_THREADS,
        head = HEAD,
        home_words = HOME_WORDS,
        homes_bytes = size_of::<Homes>(),
        mirror_entries = MIRROR_ENTRIES,
        gone = GONE,
        veiled = VEILED,
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
    /// Fused writes: deciding and publishing without the host in between.
    pub(crate) struct FusedKernels in "fused.cu", prefix "gphash_" {
        recopy: RecopyParams,
        digest: StraightParams,
        enrol: StraightParams,
        decide: StraightParams,
        line_up: Regions,
        arrange: StraightParams,
        finish: StraightParams,
        beat: BeatParams,
        send: BeatParams,
        veil: StraightParams,
        settle: BeatParams,
        spell: SpellParams,
        sort_count: SortParams,
        sort: SortParams,
    }
    agree {
        enrolled_bytes = ENROLLED_BYTES,
        act_bytes = ACT_BYTES,
        came_bytes = size_of::<Came>(),
        block_run_bytes = size_of::<BlockRun>(),
        most_parts = MOST_PARTS,
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
    pub(crate) struct ValueKernels in "values.cu", prefix "gphash_values_" {
        warm: WarmParams,
        weigh: WeighParams,
        release: ReleaseParams,
        hold: SpareParams,
        spare: SpareParams,
        choose: ChooseParams,
        order: FillParams,
        fill: FillParams,
        follow: FollowParams,
    }
    agree {
        params_bytes = size_of::<ValuesParams>(),
        choice_bytes = CHOICE_BYTES,
        in_row = 1_u64 << 63,
        heats = HEATS,
    }
}

#[cfg(test)]
warpkeep_device::kernel_set! {
    /// Readers beside writers in one launch.
    pub(crate) struct RaceKernels in "race.cu", prefix "gphash_" {
        race: RaceParams,
    }
}

/// All sets of a table. Each is compiled when it is first used.
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

/// Blocks of these kernels that the device runs at once: more of them would wait for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub(crate) order: u32,
    pub(crate) fetch: u32,
}

macro_rules! sets {
    ($($(#[$about:meta])* $set:ident: $kernels:ty),* $(,)?) => {
        impl Kernels {
            /// The kernels of a table with these constants. Those that every table uses are loaded at once, so that a device that cannot
            /// compile is found when the table is opened.
            pub(crate) fn load(device: &Device, constants: &Constants) -> Result<Kernels, TableError> {
                let kernels = Kernels {
                    $($set: LazyKernels::with_constants(device, constants.iter().copied()),)*
                    resident: OnceLock::new(),
                };
                kernels.read()?;
                Ok(kernels)
            }

            /// The programs of all sets, specialised.
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
    /// For tables whose keys or values have any length.
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
            order: index.order.resident_blocks(THREADS, 0)?.max(1),
            fetch: index.fetch.resident_blocks(THREADS, 0)?.max(1),
        };
        Ok(*self.resident.get_or_init(|| resident))
    }
}
