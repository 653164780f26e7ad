// What both sides of the launch must agree on, written out so that a test can compare.
#pragma once
#include "drain.h"
#include "homes.h"
#include "hosts.h"
#include "load.h"
#include "lookup.h"
#include "point.h"
#include "parts.h"
#include "reflect.h"
#include "regions.h"
#include "straight.h"
#include "supply.h"
#include "rows.h"
#include "value_load.h"
#include "variable.h"
#include "verify.h"

namespace gphash {

struct LayoutParams {
    u64* out;
};

}  // namespace gphash

WK_KERNEL(gphash_layout, gphash::LayoutParams) {
    using namespace gphash;
    if (global_index() != 0) return;
    const u64 facts[] = {
        sizeof(Table),        sizeof(GetParams), sizeof(StageParams), sizeof(PublishParams),
        sizeof(DrainParams),  sizeof(RepairParams), sizeof(Pending),  kEmpty,
        kInsert,              kReferenceBits,    kSpecial,            kOverflowReach,
        kMaxLevels,           kMaxOverflows,     kOk,                 kCreated,
        kNotFound,            kAlreadyExists,    kVersionMismatch,    kWrongType,
        kTableFull,           kGet,              kPut,                kInsertOp,
        kUpdate,              kDelete,           kCompareAndSwap,     kFetchAdd,
        kMerge,               kNoRule,           kReplace,            kAddU64,
        kMaxU64,              kMinU64,           kAddF32,             kAddF64,
        kOr,                  sizeof(Cache),     sizeof(Fetch),       sizeof(LoadParams),
        sizeof(RefreshParams), sizeof(AgeParams), sizeof(RaceParams), kNotCached,
        kRandom,              kLru,              kLfu,                kTallies,
        sizeof(Mirror),       sizeof(LookupParams), sizeof(CollectParams), sizeof(ReflectParams),
        sizeof(CensusParams),
        sizeof(RehashParams),
        sizeof(TellParams),   sizeof(Told),      sizeof(Fetching),    kLinedUp,
        kScanThreads,         kHead,             kHomeWords,          kMirrorEntries,
        kGone,                kVeiled,
        sizeof(Regions),      sizeof(Homes),     sizeof(StraightParams),
        sizeof(Enrolled),     sizeof(Act),       sizeof(Came),        sizeof(SpellParams),
        sizeof(BlockRun),     sizeof(SortParams), sizeof(RecopyParams),
        sizeof(PlanParams),   kPendingStatus,    kMalformed,          kTwinThreads,
        sizeof(SpreadParams), sizeof(PackParams), sizeof(MeasureParams), sizeof(CopyParams),
        sizeof(PointParams),  sizeof(AskHostParams),
        sizeof(BeatParams),   sizeof(VerifyParams),
        sizeof(Values),       sizeof(WarmParams), sizeof(WeighParams), sizeof(ReleaseParams),
        sizeof(SpareParams),  sizeof(ChooseParams), sizeof(FillParams), sizeof(Choice),
        sizeof(FollowParams),
        kInRow,               kHeats,            kMostParts,
        kSendThreads,         kUnwritten,
        kTagShift,            kGathered,           kDeclined,
        kVerdictWords,
    };
    for (u32 i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) store(p.out + i, facts[i]);
}
