#include "replay.h"

namespace wk::sim {

namespace {

// Where nothing is asked for, some launches are hasty and some lazy: each kind of mistake shows best at its own pace.
u32 drawn_drain_chance(u64 seed) {
    constexpr u32 paces[] = {512, 256, 64, 16};
    return paces[scramble(seed ^ 0xd1a1) % 4];
}

}  // namespace

Replay::Replay(const Options& options, u64 seed, StoreLog& log, u64& now)
    : options_(options),
      now_(now),
      rng_(seed),
      memory_(rng_, log, now, options.drain_chance ? options.drain_chance : drawn_drain_chance(seed), (options.weak & 1) != 0,
              (options.weak & 2) != 0) {}

bool Replay::step() {
    if (now_ >= options_.crash_at) return true;
    now_++;
    memory_.drift();
    return false;
}

void Replay::note(const Lane& lane, Step kind, const Region* region, u64 address, u64 value) {
    TraceEvent event{now_, region ? address - region->base : 0, value, region ? region->id : 0, lane.block, lane.thread, kind};
    // The step tells operations of one lane apart; each other part has a multiplier of its own, so that no two cancel out.
    u64 where = ((u64)event.block << 32 | event.thread) * 0x9e3779b97f4a7c15ull ^ ((u64)event.region << 32 | (u32)kind) * 0xc2b2ae3d27d4eb4full;
    digest_ = scramble(digest_ ^ event.step ^ where) ^ event.offset * 0x165667b19e3779f9ull ^ event.value;
    if (options_.trace) trace_.push_back(event);
}

bool Replay::read_once(u64 address, u32 bytes) {
    bool both = false;
    for (u64 word = address / 4; word <= (address + bytes - 1) / 4; word++) {
        once_.insert(word);
        both |= changed_.count(word) != 0;
    }
    return both;
}

bool Replay::changed(u64 address, u32 bytes) {
    bool both = false;
    for (u64 word = address / 4; word <= (address + bytes - 1) / 4; word++) {
        changed_.insert(word);
        both |= once_.count(word) != 0;
    }
    return both;
}

}  // namespace wk::sim
