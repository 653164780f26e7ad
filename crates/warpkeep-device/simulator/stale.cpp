#include "stale.h"

namespace wk::sim {

namespace {

// As far back as anybody can look.
constexpr std::size_t kMostChanges = 128;

}  // namespace

void StaleViews::changed(u32 block, u64 address, u32 bytes, const u8* old, u64 now) {
    Change change{address, now, bytes, block, {}};
    std::memcpy(change.old, old, bytes);
    changes_.push_back(change);
    if (changes_.size() > kMostChanges) changes_.pop_front();
}

void StaleViews::refresh(u32 block, u64 now) {
    View& view = views_[block];
    view.horizon = now;
    view.seen.clear();
}

void StaleViews::saw(u32 block, u64 address, u32 bytes, u64 now) {
    View& view = views_[block];
    for (u64 word = address / 8; word <= (address + bytes - 1) / 8; word++) view.seen[word] = now;
}

void StaleViews::age(u32 block, u64 address, u32 bytes, u8* value, u64 now) {
    View& view = views_[block];
    u64 earliest = view.horizon;
    for (u64 word = address / 8; word <= (address + bytes - 1) / 8; word++) {
        auto seen = view.seen.find(word);
        if (seen != view.seen.end() && seen->second > earliest) earliest = seen->second;
    }
    // As old as can be, or as new: between the two lies nothing that other loads would not show as well.
    u64 as_of = rng_.chance(512) ? now : earliest;
    for (auto change = changes_.rbegin(); change != changes_.rend() && change->step > as_of; ++change) {
        if (change->address >= address + bytes || address >= change->address + change->bytes) continue;
        if (change->block == block) break;
        for (u32 i = 0; i < bytes; i++) {
            u64 byte = address + i;
            if (byte >= change->address && byte < change->address + change->bytes) value[i] = change->old[byte - change->address];
        }
    }
    saw(block, address, bytes, as_of);
}

}  // namespace wk::sim
