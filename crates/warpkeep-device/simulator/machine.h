// A simulated device: its memory, its options and the runs of kernels on it.
#pragma once
#include <mutex>
#include <vector>

#include "launch.h"
#include "log.h"
#include "pool.h"
#include "region.h"
#include "replay.h"

namespace wk::sim {

// What came of a launch. Laid out for the Rust side.
struct Report {
    u64 steps;
    u64 switches;
    u64 digest;
    u64 now;
    u32 crashed;
    u32 workers;
};

class Machine {
  public:
    explicit Machine(const Options& options) : options_(options) {}

    // Runs the kernel; false if it did something wrong, which `fault` then tells.
    bool launch(Entry entry, Grid grid, const void* params, std::size_t params_size, Report& report, Fault& fault);

    u32 add_region(u64 base, u64 size, Memory kind, bool initialised);
    bool remove_region(u64 base);
    bool note_written(u64 base, u64 size);
    void set_crash(u64 step);
    // The log and the trace so far; both begin anew.
    std::vector<StoreRecord> take_log();
    std::vector<TraceEvent> take_trace();

    // For lanes, while a launch holds the lock.
    Region* find(u64 address) { return regions_.find(address); }
    Pool& pool() { return pool_; }
    bool looks_at_accesses() const { return options_.seeded || options_.checked; }

  private:
    void run(Launch& launch, Report& report);

    Options options_;
    Pool pool_;
    // One launch at a time.
    std::mutex launch_lock_;
    // Held by launches that look at accesses, so that memory does not go away under them.
    std::mutex memory_lock_;
    RegionTable regions_;
    StoreLog log_;
    std::vector<TraceEvent> trace_;
    u64 now_ = 0;
    u64 launches_ = 0;
};

}  // namespace wk::sim
