// What Rust calls. The structs that cross are laid out the same on both sides; src/sim/ffi.rs is the other one.
#include <new>

#include "machine.h"

using wk::sim::Entry;
using wk::sim::Fault;
using wk::sim::Grid;
using wk::sim::Machine;
using wk::sim::Memory;
using wk::sim::Options;
using wk::sim::Report;
using wk::sim::StoreRecord;
using wk::sim::TraceEvent;

static_assert(sizeof(Options) == 56 && sizeof(Grid) == 12 && sizeof(Report) == 40, "known to src/sim/ffi.rs");
static_assert(sizeof(StoreRecord) == 88 && sizeof(TraceEvent) == 40 && sizeof(Fault) == 424, "known to src/sim/ffi.rs");
static_assert(offsetof(Fault, detail) == 40 && offsetof(StoreRecord, region) == 68, "known to src/sim/ffi.rs");

// No exception may pass into Rust: the only one that is left is that memory has run out.
template <class Result, class Body> static Result guarded(Result otherwise, Body body) {
    try {
        return body();
    } catch (...) {
        return otherwise;
    }
}

extern "C" {

Machine* wk_sim_create(const Options* options) { return new (std::nothrow) Machine(*options); }

void wk_sim_destroy(Machine* machine) { delete machine; }

// 0 if it went well, 1 if the kernel was at fault, 2 if the simulator ran out of memory.
int wk_sim_launch(Machine* machine, Entry entry, Grid grid, const void* params, std::size_t params_size, Report* report, Fault* fault) {
    return guarded(2, [&] { return machine->launch(entry, grid, params, params_size, *report, *fault) ? 0 : 1; });
}

wk::u32 wk_sim_add_region(Machine* machine, wk::u64 base, wk::u64 size, wk::u32 kind, bool initialised) {
    return guarded(0u, [&] { return machine->add_region(base, size, (Memory)kind, initialised); });
}

bool wk_sim_remove_region(Machine* machine, wk::u64 base) { return machine->remove_region(base); }

bool wk_sim_note_written(Machine* machine, wk::u64 base, wk::u64 size) { return machine->note_written(base, size); }

void wk_sim_set_crash(Machine* machine, wk::u64 step) { machine->set_crash(step); }

// Both hand every element to `take`, in order, and forget them.
void wk_sim_take_log(Machine* machine, void (*take)(void* sink, const StoreRecord* record), void* sink) {
    for (const StoreRecord& record : machine->take_log()) take(sink, &record);
}

void wk_sim_take_trace(Machine* machine, void (*take)(void* sink, const TraceEvent* event), void* sink) {
    for (const TraceEvent& event : machine->take_trace()) take(sink, &event);
}

}  // extern "C"
