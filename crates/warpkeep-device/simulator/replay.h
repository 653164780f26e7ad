// The seeded world: one order of all steps, decided by a seed, with memory that takes its time.
#pragma once
#include <unordered_set>
#include <vector>

#include "launch.h"
#include "rng.h"
#include "weak.h"

namespace wk::sim {

enum class Step : u32 { Load = 0, Store = 1, Change = 2, Fence = 3 };

// One memory operation. Laid out for the Rust side.
struct TraceEvent {
    u64 step;
    u64 offset;
    u64 value;
    u32 region;
    u32 block;
    u32 thread;
    Step kind;
};

class Replay {
  public:
    // `now` counts the steps of all launches of the machine.
    Replay(const Options& options, u64 seed, StoreLog& log, u64& now);

    Rng& rng() { return rng_; }
    WeakMemory& memory() { return memory_; }
    // A memory operation, or the end of the launch, begins. Says whether the power goes before it.
    bool step();
    void order(const Lane& lane, Scope scope) { memory_.order(lane, scope); }
    void note(const Lane& lane, Step kind, const Region* region, u64 address, u64 value);
    // Memory read as never changing, and memory changed: the same 4 bytes must not be both. True if they are.
    bool read_once(u64 address, u32 bytes);
    bool changed(u64 address, u32 bytes);

    u64 digest() const { return digest_; }
    std::vector<TraceEvent>& trace() { return trace_; }

  private:
    const Options& options_;
    u64& now_;
    Rng rng_;
    WeakMemory memory_;
    u64 digest_ = 0xcbf29ce484222325ull;
    std::vector<TraceEvent> trace_;
    std::unordered_set<u64> once_;
    std::unordered_set<u64> changed_;
};

}  // namespace wk::sim
