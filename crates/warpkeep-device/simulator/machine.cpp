#include "machine.h"

#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "tsan.h"
#include "worker.h"

namespace wk::sim {

bool Machine::launch(Entry entry, Grid grid, const void* params, std::size_t params_size, Report& report, Fault& fault) {
    std::lock_guard<std::mutex> launching(launch_lock_);
    std::unique_lock<std::mutex> memory(memory_lock_, std::defer_lock);
    if (looks_at_accesses()) memory.lock();

    auto launch = std::make_unique<Launch>(entry, grid, options_);
    std::memcpy(launch->params, params, params_size);
    launch->params_size = params_size;
    run(*launch, report);
    tsan::acquire(launch.get());
    report.steps = launch->lane_steps.load();
    report.switches = launch->switches.load();
    report.now = now_;
    report.crashed = launch->crashed;
    fault = launch->fault;
    return fault.kind == FaultKind::None;
}

void Machine::run(Launch& launch, Report& report) {
    if (options_.seeded) {
        Replay replay(options_, scramble(options_.seed) ^ scramble(launches_++ * 2 + 1), log_, now_);
        Worker(*this, launch, &replay).run();
        if (launch.fault.kind == FaultKind::None) {
            launch.crashed = launch.crashed || replay.step();
            if (launch.crashed) {
                replay.memory().lose();
            } else {
                replay.memory().settle();
            }
        }
        report.digest = replay.digest();
        report.workers = 1;
        trace_.insert(trace_.end(), replay.trace().begin(), replay.trace().end());
        return;
    }
    u32 workers = options_.workers < launch.grid.blocks ? options_.workers : launch.grid.blocks;
    std::vector<std::thread> others;
    auto work = [&] { Worker(*this, launch, nullptr).run(); };
    try {
        while (others.size() + 1 < workers) others.emplace_back(work);
    } catch (const std::system_error&) {
        // Fewer threads do the same work.
    }
    work();
    report.workers = (u32)others.size() + 1;
    for (std::thread& other : others) other.join();
}

u32 Machine::add_region(u64 base, u64 size, Memory kind, bool initialised) {
    std::lock_guard<std::mutex> memory(memory_lock_);
    return regions_.add(base, size, kind, initialised, looks_at_accesses());
}

bool Machine::remove_region(u64 base) {
    std::lock_guard<std::mutex> memory(memory_lock_);
    return regions_.remove(base, looks_at_accesses());
}

bool Machine::note_written(u64 base, u64 size) {
    std::lock_guard<std::mutex> memory(memory_lock_);
    return regions_.note_written(base, size);
}

void Machine::set_crash(u64 step) {
    std::lock_guard<std::mutex> launching(launch_lock_);
    options_.crash_at = step;
}

std::vector<StoreRecord> Machine::take_log() {
    std::lock_guard<std::mutex> launching(launch_lock_);
    return std::exchange(log_.records, {});
}

std::vector<TraceEvent> Machine::take_trace() {
    std::lock_guard<std::mutex> launching(launch_lock_);
    return std::exchange(trace_, {});
}

}  // namespace wk::sim
