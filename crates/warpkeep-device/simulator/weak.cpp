#include "weak.h"

#include <algorithm>

namespace wk::sim {

namespace {

// More than any kernel has in flight between two fences of interest; keeps every scan short.
constexpr std::size_t kMostPending = 192;

u8* memory_at(u64 address) { return reinterpret_cast<u8*>(address); }

}  // namespace

WeakMemory::Stage WeakMemory::last_stage(const Region& region) {
    switch (region.kind) {
    case Memory::Shared: return OfBlock;
    case Memory::Image: return OfSystem;
    default: return OfDevice;
    }
}

bool WeakMemory::covers(const Lane& lane, u32 block, u32 thread, Stage ordered) {
    if (block == lane.block) return thread == lane.thread || ordered >= OfBlock;
    return ordered >= OfDevice;
}

u32 WeakMemory::overlay(u32 block, u32 thread, u64 address, u32 bytes, Stage stage, u8* out) const {
    u32 covered = 0;
    if (lines_.of(address) == 0) return covered;
    for (const Pending& store : pending_) {
        if (store.stage != stage || !store.touches(address, bytes)) continue;
        if (stage <= OfBlock && store.block != block) continue;
        if (stage == OfLane && store.thread != thread) continue;
        for (u32 i = 0; i < bytes; i++) {
            u64 byte = address + i;
            if (byte < store.address || byte >= store.address + store.bytes) continue;
            out[i] = store.value[byte - store.address];
            covered |= 1u << i;
        }
    }
    return covered;
}

u32 WeakMemory::seen_by_device(u64 address, u32 bytes, u8* out) const {
    std::memcpy(out, memory_at(address), bytes);
    return overlay(0, 0, address, bytes, OfDevice, out);
}

bool WeakMemory::knows(const Region& region, u64 address, u32 bytes, u32 covered) const {
    for (u32 i = 0; i < bytes && !region.known.empty(); i++) {
        if ((covered >> i & 1) == 0 && !region.is_known(address, i)) return false;
    }
    return true;
}

bool WeakMemory::read(const Lane& lane, const Region& region, u64 address, u32 bytes, bool weak, u8* out) {
    u32 covered = seen_by_device(address, bytes, out);
    if (ages_ && region.kind != Memory::Shared) {
        if (weak) {
            stale_.age(lane.block, address, bytes, out, now_);
        } else {
            stale_.saw(lane.block, address, bytes, now_);
        }
    }
    // What is nearest to the lane comes last.
    covered |= overlay(lane.block, lane.thread, address, bytes, OfBlock, out);
    covered |= overlay(lane.block, lane.thread, address, bytes, OfLane, out);
    return knows(region, address, bytes, covered);
}

void WeakMemory::refresh(const Lane& lane, Scope scope) {
    if (scope != Scope::Block) stale_.refresh(lane.block, now_);
}

void WeakMemory::write(const Lane& lane, Region& region, u64 address, u32 bytes, const u8* value, bool may_tear, Site at) {
    u32 piece = may_tear && bytes > 8 ? 8 : bytes;
    for (u32 done = 0; done < bytes; done += piece) {
        add(lane, region, address + done, piece, value + done, OfLane, at);
        while (!delays_ && !pending_.empty()) advance(0);
    }
    while (pending_.size() > kMostPending) advance(first_in_the_way(rng_.below((u32)pending_.size())));
}

bool WeakMemory::read_at(const Lane& lane, const Region& region, u64 address, u32 bytes, Scope scope, u8* out) {
    if (lines_.of(address) != 0) push(stage_of(scope), [&](const Pending& store) {
        bool sees = store.stage == OfLane ? store.is_of(lane) : store.stage != OfBlock || store.block == lane.block;
        return sees && store.touches(address, bytes);
    });
    u32 covered = seen_by_device(address, bytes, out);
    if (ages_ && region.kind != Memory::Shared) stale_.saw(lane.block, address, bytes, now_);
    if (scope == Scope::Block) covered |= overlay(lane.block, lane.thread, address, bytes, OfBlock, out);
    return knows(region, address, bytes, covered);
}

void WeakMemory::write_at(const Lane& lane, Region& region, u64 address, u32 bytes, Scope scope, const u8* value, Site at) {
    add(lane, region, address, bytes, value, OfLane, at);
    // Nothing of the same bytes is before it up to that stage: read_at saw to it.
    std::size_t which = pending_.size() - 1;
    Stage stage = stage_of(scope) < last_stage(region) ? stage_of(scope) : last_stage(region);
    for (u32 at_stage = OfLane; at_stage < stage; at_stage++) {
        advance(which);
        which = pending_.size() - 1;
    }
    while (!delays_ && !pending_.empty()) advance(0);
}

void WeakMemory::order(const Lane& lane, Scope scope) {
    Stage stage = stage_of(scope);
    if (scope == Scope::System) epoch_++;
    // Decided before anything moves: what it carries is what lay behind it.
    for (Pending& store : pending_) {
        if (covers(lane, store.block, store.thread, store.ordered) && store.ordered < stage) store.ordered = stage;
    }
    for (std::size_t i = 0; i < unfenced_.size();) {
        Unfenced& store = unfenced_[i];
        if (covers(lane, store.block, store.thread, store.ordered) && store.ordered < stage) store.ordered = stage;
        if (store.ordered == OfSystem) {
            log_.records[store.record].fenced = now_;
            unfenced_[i] = unfenced_.back();
            unfenced_.pop_back();
        } else {
            i++;
        }
    }
    push(stage, [&](const Pending& store) { return store.ordered >= stage; });
}

void WeakMemory::drift() {
    while (!pending_.empty() && rng_.chance(drain_chance_)) advance(first_in_the_way(rng_.below((u32)pending_.size())));
}

void WeakMemory::block_ended(u32 block) {
    auto gone = [&](const Pending& store) { return store.block == block && store.region->kind == Memory::Shared; };
    auto left = std::remove_if(pending_.begin(), pending_.end(), gone);
    if (left == pending_.end()) return;
    pending_.erase(left, pending_.end());
    lines_.clear();
    for (const Pending& store : pending_) lines_.add(store.address);
}

void WeakMemory::settle() {
    while (!pending_.empty()) advance(first_in_the_way(rng_.below((u32)pending_.size())));
    for (const Unfenced& store : unfenced_) log_.records[store.record].fenced = now_;
    unfenced_.clear();
}

void WeakMemory::lose() {
    // Those that had come furthest first: the order in which overlapping bytes would have got them.
    for (u32 stage = OfDevice + 1; stage-- > OfLane;) {
        for (const Pending& store : pending_) {
            if (store.stage == stage && store.region->kind == Memory::Image) arrive(store, kNever);
        }
    }
    pending_.clear();
    lines_.clear();
    unfenced_.clear();
}

void WeakMemory::add(const Lane& lane, Region& region, u64 address, u32 bytes, const u8* value, Stage stage, Site at) {
    Pending store{&region, address, now_, epoch_, at, bytes, lane.block, lane.thread, stage, OfLane, {}};
    std::memcpy(store.value, value, bytes);
    pending_.push_back(store);
    lines_.add(address);
}

// The earliest store that must move before this one; itself if there is none.
std::size_t WeakMemory::first_in_the_way(std::size_t which) const {
    if (lines_.of(pending_[which].address) == 1) return which;
    for (std::size_t i = 0; i < which; i++) {
        const Pending& before = pending_[i];
        const Pending& store = pending_[which];
        if (before.stage != store.stage || !before.touches(store.address, store.bytes)) continue;
        bool same_queue = store.stage == OfDevice || (before.block == store.block &&
                                                      (store.stage == OfBlock || before.thread == store.thread));
        if (!same_queue) continue;
        which = i;
        i = (std::size_t)-1;
    }
    return which;
}

void WeakMemory::advance(std::size_t which) {
    Pending store = pending_[which];
    pending_.erase(pending_.begin() + (std::ptrdiff_t)which);
    store.stage = (Stage)(store.stage + 1);
    if (ages_ && store.stage == OfDevice) {
        u8 old[16];
        seen_by_device(store.address, store.bytes, old);
        stale_.changed(store.block, store.address, store.bytes, old, now_);
    }
    if (store.stage < last_stage(*store.region)) {
        pending_.push_back(store);
        return;
    }
    lines_.remove(store.address);
    std::memcpy(memory_at(store.address), store.value, store.bytes);
    store.region->note_written(store.address, store.bytes);
    if (store.region->kind == Memory::Image) arrive(store, now_);
}

template <class Wanted> void WeakMemory::push(Stage stage, Wanted wanted) {
    for (std::size_t i = 0; i < pending_.size();) {
        const Pending& store = pending_[i];
        if (store.stage >= stage || !wanted(store)) {
            i++;
            continue;
        }
        // Whatever moves goes to the end or leaves, so look again from the beginning.
        advance(first_in_the_way(i));
        i = 0;
    }
}

void WeakMemory::arrive(const Pending& store, u64 arrived) {
    StoreRecord record{};
    record.offset = store.address - store.region->base;
    std::memcpy(record.bytes, store.value, store.bytes);
    record.issued = store.issued;
    record.arrived = arrived;
    record.fenced = store.ordered == OfSystem && arrived != kNever ? now_ : kNever;
    record.epoch = store.epoch;
    record.file = store.at.file;
    record.line = store.at.line;
    record.region = store.region->id;
    record.size = store.bytes;
    record.block = store.block;
    record.thread = store.thread;
    log_.records.push_back(record);
    if (arrived != kNever && record.fenced == kNever) {
        unfenced_.push_back(Unfenced{log_.records.size() - 1, store.block, store.thread, store.ordered});
    }
}

}  // namespace wk::sim
