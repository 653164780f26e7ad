// Where lanes meet: the collectives of a warp and the barrier of a block.
#include <cstdio>

#include "machine.h"
#include "replay.h"
#include "tsan.h"
#include "worker.h"

namespace wk::sim {

namespace {

const char* name_of(Kind kind) {
    switch (kind) {
    case Kind::Ballot: return "ballot";
    case Kind::Any: return "any";
    case Kind::All: return "all";
    case Kind::Shuffle: return "shfl";
    case Kind::ShuffleXor: return "shfl_xor";
    case Kind::Match: return "match_any";
    case Kind::Sync: return "sync";
    }
    return "a collective";
}

bool same_place(Site a, Site b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// The gathering of this mask, or a free one. A lane is in one at most, so there is always one free.
Gathering& gathering_of(Warp& warp, u32 mask) {
    u32 hint = (u32)__builtin_ctz(mask);
    if (warp.gatherings[hint].mask == mask) return warp.gatherings[hint];
    for (u32 open = warp.open; open != 0; open &= open - 1) {
        Gathering& other = warp.gatherings[__builtin_ctz(open)];
        if (other.mask == mask) return other;
    }
    return warp.gatherings[warp.open >> hint & 1 ? __builtin_ctz(~warp.open) : hint];
}

// The one that a lane waits in.
const Gathering& joined(const Warp& warp, const Lane& lane) {
    u32 open = warp.open;
    while (open & (open - 1) && !(warp.gatherings[__builtin_ctz(open)].arrived & lane.bit())) open &= open - 1;
    return warp.gatherings[open ? __builtin_ctz(open) : 0];
}

}  // namespace

// What happens most is short, and ends in the switch itself: a lane comes to a gathering that others have opened, and hands over to
// the next lane of its warp. Everything else is Worker::meet's.
u64 meet(Kind kind, u32 mask, u64 value, u32 from, Site at) {
    Lane& lane = *static_cast<Lane*>(current_lane);
    Warp& warp = *lane.warp;
    u32 index = lane.index;
    Gathering& gathering = warp.gatherings[mask ? __builtin_ctz(mask) : 0];
    bool plain = gathering.mask == mask && gathering.kind == kind && gathering.at.line == at.line && gathering.at.file == at.file &&
                 warp.hands_over && (mask >> index & 1) && lane.allowance > 1;
    if (__builtin_expect(!plain, 0)) return lane.worker->meet(lane, kind, mask, value, from, at);
    lane.allowance--;
    warp.given[index] = value;
    warp.from[index] = from;
    gathering.arrived |= 1u << index;
    gathering.yes |= (u32)(value != 0) << index;
    if (gathering.arrived == mask) return lane.worker->complete(lane, gathering);
    warp.blocked |= 1u << index;
    u32 runnable = warp.runnable();
    if (__builtin_expect(runnable == 0, 0)) return lane.worker->go_home(lane);
    u32 next = (u32)__builtin_ctz(runnable);
    current_lane = &warp.lanes[next];
    return switch_context(lane.context, warp.lanes[next].context, warp.got[next]);
}

u64 Worker::meet(Lane& lane, Kind kind, u32 mask, u64 value, u32 from, Site at) {
    Warp& warp = *lane.warp;
    u32 bit = lane.bit();
    lane.at = at;
    if (--lane.allowance <= 0) {
        lane.allowance = turn_;
        count(lane, turn_ > 0 ? (u64)turn_ : 1, at);
        if (launch_.stop.load(std::memory_order_relaxed)) go_home_for_good(lane);
    }
    if ((mask & bit) == 0) {
        fail(lane, FaultKind::NotInMask, at, "%s with mask %08x, in which lane %u itself is not", name_of(kind), mask, lane.index);
    }
    if ((mask & ~warp.live) != 0) {
        u32 gone = (u32)__builtin_ctz(mask & ~warp.live);
        fail(lane, FaultKind::LaneGone, at, "%s with mask %08x names lane %u, which has returned or never was", name_of(kind), mask,
             gone);
    }
    Gathering& gathering = gathering_of(warp, mask);
    if (gathering.mask == 0) {
        warp.open |= 1u << (&gathering - warp.gatherings);
        gathering = Gathering{mask, 0, 0, kind, at};
    } else if (gathering.kind != kind || (kind != Kind::Sync && !same_place(gathering.at, at))) {
        fail(lane, FaultKind::Diverged, at, "lane %u is at %s, but lane %d of the same mask %08x is at %s (%s:%u)", lane.index,
             name_of(kind), __builtin_ctz(gathering.arrived), mask, name_of(gathering.kind), gathering.at.file, gathering.at.line);
    }
    warp.given[lane.index] = value;
    warp.from[lane.index] = from;
    gathering.arrived |= bit;
    if (value) gathering.yes |= bit;
    if (kind == Kind::Sync) {
        if (replay_ != nullptr) replay_->order(lane, Scope::Block);
        tsan::release(&gathering);
    }
    u64 got;
    if (gathering.arrived == mask) {
        got = complete(lane, gathering);
    } else {
        warp.blocked |= bit;
        got = leave(lane);
    }
    if (kind == Kind::Sync) tsan::acquire(&gathering);
    return got;
}

u64 Worker::complete(Lane& lane, Gathering& gathering) {
    Warp& warp = *lane.warp;
    u32 mask = gathering.mask;
    switch (gathering.kind) {
    case Kind::Ballot:
    case Kind::Any:
    case Kind::All:
        for (u32 i = 0; i < kWarp; i++) {
            if (mask >> i & 1) warp.got[i] = gathering.yes;
        }
        break;
    case Kind::Shuffle:
    case Kind::ShuffleXor:
        for (u32 i = 0; i < kWarp; i++) {
            if ((mask >> i & 1) == 0) continue;
            if (__builtin_expect((mask >> warp.from[i] & 1) == 0, 0)) {
                fail(warp.lanes[i], FaultKind::NotInMask, gathering.at, "lane %u asks lane %u, which is not in mask %08x", i, warp.from[i],
                     mask);
            }
            warp.got[i] = warp.given[warp.from[i]];
        }
        break;
    case Kind::Match:
        for (u32 rest = mask; rest != 0; rest &= rest - 1) {
            u32 i = (u32)__builtin_ctz(rest);
            u32 same = 0;
            for (u32 j = 0; j < kWarp; j++) same |= (u32)(warp.given[j] == warp.given[i]) << j;
            warp.got[i] = same & mask;
        }
        break;
    case Kind::Sync: break;
    }
    // All but the last one have made way for another; where they do not do so by themselves, it was counted then.
    if (warp.hands_over) switches_ += popc(mask) - 1;
    gathering.mask = 0;
    warp.open &= ~(1u << (&gathering - warp.gatherings));
    warp.blocked &= ~mask;
    return warp.got[lane.index];
}

void Worker::meet_block(Lane& lane, Site at) {
    Warp& warp = *lane.warp;
    Block& block = *warp.block;
    lane.at = at;
    count(lane, 1, at);
    if (block.at_barrier == 0) {
        block.barrier = at;
        block.barrier_first = lane.thread;
    } else if (!same_place(block.barrier, at)) {
        fail(lane, FaultKind::BarrierDiverged, at, "thread %u is at this sync_block, but thread %u waits at the one in %s:%u",
             lane.thread, block.barrier_first, block.barrier.file, block.barrier.line);
    }
    if (replay_ != nullptr) replay_->order(lane, Scope::Block);
    tsan::release(&block);
    block.at_barrier++;
    if (block.at_barrier == block.live) {
        release_barrier(block);
    } else {
        warp.at_barrier |= lane.bit();
        warp.blocked |= lane.bit();
        leave(lane);
    }
    tsan::acquire(&block);
}

void Worker::release_barrier(Block& block) {
    block.at_barrier = 0;
    for (auto& warp : block.warps) {
        warp->blocked &= ~warp->at_barrier;
        warp->at_barrier = 0;
    }
}

// No lane of the block can run, and none outside it can help.
void Worker::report_stuck(Block& block) {
    const Lane* first = nullptr;
    const Lane* at_barrier = nullptr;
    char detail[sizeof(Fault::detail)];
    int length = std::snprintf(detail, sizeof detail, "no lane of the block can go on:");
    u32 told = 0;
    for (auto& warp : block.warps) {
        u32 shown = 0;
        for (u32 live = warp->live; live != 0; live &= live - 1) {
            const Lane& lane = warp->lanes[__builtin_ctz(live)];
            bool barrier = warp->at_barrier & lane.bit();
            if (barrier && at_barrier == nullptr) at_barrier = &lane;
            if (!barrier && first == nullptr) first = &lane;
            // One lane stands for all that wait at the same thing.
            u32 group = barrier ? warp->at_barrier : joined(*warp, lane).arrived;
            if ((shown & lane.bit()) != 0 || told >= 4 || length < 0 || (std::size_t)length >= sizeof detail) continue;
            shown |= group;
            told++;
            std::size_t room = sizeof detail - (std::size_t)length;
            if (barrier) {
                length += std::snprintf(detail + length, room, " warp %u lanes %08x at sync_block (%s:%u);", warp->index, group, lane.at.file,
                                        lane.at.line);
            } else {
                const Gathering& g = joined(*warp, lane);
                length += std::snprintf(detail + length, room, " warp %u lanes %08x at %s for mask %08x (%s:%u);", warp->index, group,
                                        name_of(g.kind), g.mask, g.at.file, g.at.line);
            }
        }
    }
    const Lane& lane = first != nullptr ? *first : *at_barrier;
    Site at = first != nullptr ? joined(*lane.warp, lane).at : lane.at;
    record(lane, at_barrier != nullptr ? FaultKind::BarrierDiverged : FaultKind::Deadlock, at, detail);
}

}  // namespace wk::sim
