//! What both sides of a launch must agree on, as the host has it: `kernels/layout.h` writes the kernels' out.

use super::CachePolicy;
use super::homes::{HOME_WORDS, Homes};
use super::params::*;
use super::regions::{HEAD, LINED_UP, Regions, SCAN_THREADS};
use super::straight::params::{
    ACT_BYTES, BeatParams, BlockRun, Came, ENROLLED_BYTES, FollowParams, MOST_PARTS, RecopyParams,
    SEND_THREADS, SortParams, SpellParams, StraightParams, VerifyParams,
};
use crate::slot::{EMPTY, INSERT, REFERENCE_BITS};
use warpkeep_core::{MergeRule, Op, Status};

/// What the kernel `gphash_layout` must write.
pub(crate) fn expected() -> Vec<u64> {
    let mut facts: Vec<u64> = [
        size_of::<TableParams>(),
        size_of::<GetParams>(),
        size_of::<StageParams>(),
        size_of::<PublishParams>(),
        size_of::<DrainParams>(),
        size_of::<RepairParams>(),
        size_of::<Pending>(),
    ]
    .map(|bytes| bytes as u64)
    .to_vec();
    facts.extend([EMPTY, INSERT, u64::from(REFERENCE_BITS), 1, 4]);
    facts.extend([MAX_LEVELS as u64, MAX_OVERFLOWS as u64]);
    let statuses = [
        Status::Ok,
        Status::Created,
        Status::NotFound,
        Status::AlreadyExists,
        Status::VersionMismatch,
        Status::WrongType,
        Status::TableFull,
    ];
    facts.extend(statuses.map(|status| u64::from(status as u8)));
    let ops =
        [Op::Get, Op::Put, Op::Insert, Op::Update, Op::Delete, Op::CompareAndSwap, Op::FetchAdd, Op::Merge];
    facts.extend(ops.map(|op| u64::from(op as u8)));
    facts.extend(MergeRule::ALL[..8].iter().map(|rule| u64::from(rule.code())));
    let of_the_cache = [
        size_of::<CacheParams>(),
        size_of::<Fetch>(),
        size_of::<LoadParams>(),
        size_of::<RefreshParams>(),
        size_of::<AgeParams>(),
        size_of::<RaceParams>(),
    ];
    facts.extend(of_the_cache.map(|bytes| bytes as u64));
    let policies = [CachePolicy::Random, CachePolicy::Lru, CachePolicy::Lfu];
    facts.push(u64::from(NOT_CACHED));
    facts.extend(policies.map(|policy| policy as u64));
    facts.push(TALLIES as u64);
    let of_the_mirror = [
        size_of::<MirrorParams>(),
        size_of::<LookupParams>(),
        size_of::<CollectParams>(),
        size_of::<ReflectParams>(),
        size_of::<CensusParams>(),
        size_of::<RehashParams>(),
        size_of::<TellParams>(),
        size_of::<Told>(),
        size_of::<[u64; 2]>(),
    ];
    facts.extend(of_the_mirror.map(|bytes| bytes as u64));
    facts.extend([u64::from(LINED_UP), u64::from(SCAN_THREADS), HEAD as u64]);
    facts.extend([HOME_WORDS as u64, MIRROR_ENTRIES, GONE, VEILED]);
    let of_straight_batches = [
        size_of::<Regions>(),
        size_of::<Homes>(),
        size_of::<StraightParams>(),
        ENROLLED_BYTES,
        ACT_BYTES,
        size_of::<Came>(),
        size_of::<SpellParams>(),
        size_of::<BlockRun>(),
        size_of::<SortParams>(),
        size_of::<RecopyParams>(),
    ];
    facts.extend(of_straight_batches.map(|bytes| bytes as u64));
    facts.extend([size_of::<PlanParams>() as u64, Status::Pending as u64, Status::Malformed as u64]);
    facts.push(u64::from(super::engine::THREADS));
    let of_rows = [
        size_of::<SpreadParams>(),
        size_of::<PackParams>(),
        size_of::<MeasureParams>(),
        size_of::<CopyParams>(),
        size_of::<PointParams>(),
        size_of::<AskHostParams>(),
        size_of::<BeatParams>(),
        size_of::<VerifyParams>(),
    ];
    facts.extend(of_rows.map(|bytes| bytes as u64));
    let of_values = [
        size_of::<ValuesParams>(),
        size_of::<WarmParams>(),
        size_of::<WeighParams>(),
        size_of::<ReleaseParams>(),
        size_of::<SpareParams>(),
        size_of::<ChooseParams>(),
        size_of::<FillParams>(),
        CHOICE_BYTES,
        size_of::<FollowParams>(),
    ];
    facts.extend(of_values.map(|bytes| bytes as u64));
    facts.extend([1 << 63, HEATS as u64, MOST_PARTS as u64, u64::from(SEND_THREADS)]);
    facts.push(u64::from_ne_bytes([UNWRITTEN; 8]));
    facts.extend([u64::from(TAG_SHIFT), GATHERED, DECLINED, VERDICT_WORDS as u64]);
    facts
}
