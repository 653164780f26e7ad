// What kernel code asks the simulator for, one lane at a time.
#include "machine.h"
#include "replay.h"
#include "worker.h"

namespace wk::sim {

namespace {

using machine::Rmw;

Lane& this_lane() { return *static_cast<Lane*>(current_lane); }

// The first 8 bytes of a value, for the trace.
u64 word_of(const void* value, u32 bytes) {
    u64 word = 0;
    std::memcpy(&word, value, bytes < 8 ? bytes : 8);
    return word;
}

bool acquires(Order order) { return order == Order::Acquire || order == Order::AcqRel; }
bool releases(Order order) { return order == Order::Release || order == Order::AcqRel; }

Region& checked(Lane& lane, const void* p, u32 bytes, const char* what, Site at) {
    Worker& worker = *lane.worker;
    u64 address = reinterpret_cast<u64>(p);
    if (address % bytes != 0) {
        worker.fail(lane, FaultKind::Misaligned, at, "%s of %u bytes at %#llx, which is not a multiple of %u", what, bytes, address, bytes);
    }
    Region* region = worker.machine().find(address);
    if (region == nullptr) {
        worker.fail(lane, FaultKind::OutOfBounds, at, "%s of %u bytes at %#llx, where no memory is registered", what, bytes, address);
    }
    if (region->freed) {
        worker.fail(lane, FaultKind::UseAfterFree, at, "%s of %u bytes at byte %llu of a buffer of %llu bytes that was freed", what, bytes,
                    address - region->base, region->size);
    }
    if (!region->holds(address, bytes)) {
        worker.fail(lane, FaultKind::OutOfBounds, at, "%s of %u bytes at byte %llu of a buffer of %llu bytes", what, bytes,
                    address - region->base, region->size);
    }
    return *region;
}

[[noreturn]] void fail_unknown(Lane& lane, const Region& region, u64 address, u32 bytes, Site at) {
    lane.worker->fail(lane, FaultKind::Uninitialised, at, "%u bytes at byte %llu of %s were never written", bytes, address - region.base,
                      region.kind == Memory::Shared ? "shared memory" : "the buffer");
}

[[noreturn]] void fail_once(Lane& lane, const Region& region, u64 address, Site at) {
    lane.worker->fail(lane, FaultKind::ReadOnlyChanged, at, "byte %llu of the buffer is read with load_once and changed in the same launch",
                      address - region.base);
}

// In fast mode the caller carries the operation out; the memory is only looked at.
bool look_at_read(Lane& lane, const Region& region, u64 address, u32 bytes, Site at) {
    for (u32 i = 0; i < bytes; i++) {
        if (!region.is_known(address, i)) fail_unknown(lane, region, address, bytes, at);
    }
    return false;
}

bool looks(const Lane& lane) { return lane.worker->machine().looks_at_accesses(); }

bool load_from(Lane& lane, Region& region, const void* p, void* out, u32 bytes, Scope scope, Order order, Cached cached, Site at) {
    u64 address = reinterpret_cast<u64>(p);
    Replay* replay = lane.worker->replay();
    if (replay == nullptr) return look_at_read(lane, region, address, bytes, at);
    u8 value[16];
    bool may_be_stale = order == Order::Weak && cached == Cached::First;
    if (!replay->memory().read(lane, region, address, bytes, may_be_stale, value)) fail_unknown(lane, region, address, bytes, at);
    if (cached == Cached::Once && replay->read_once(address, bytes)) fail_once(lane, region, address, at);
    if (acquires(order)) replay->memory().refresh(lane, scope);
    replay->note(lane, Step::Load, &region, address, word_of(value, bytes));
    std::memcpy(out, value, bytes);
    return true;
}

bool store_to(Lane& lane, Region& region, void* p, const void* value, u32 bytes, Scope scope, Order order, Site at) {
    u64 address = reinterpret_cast<u64>(p);
    Replay* replay = lane.worker->replay();
    if (replay == nullptr) {
        region.note_written(address, bytes);
        return false;
    }
    if (region.kind != Memory::Shared && replay->changed(address, bytes)) fail_once(lane, region, address, at);
    if (releases(order)) replay->order(lane, scope);
    replay->note(lane, Step::Store, &region, address, word_of(value, bytes));
    replay->memory().write(lane, region, address, bytes, static_cast<const u8*>(value), order == Order::Weak, at);
    return true;
}

template <class T> T changed_word(Rmw op, T old, T v) {
    switch (op) {
    case Rmw::Add: return (T)(old + v);
    case Rmw::Or: return (T)(old | v);
    case Rmw::And: return (T)(old & v);
    case Rmw::Max: return old > v ? old : v;
    case Rmw::Min: return old < v ? old : v;
    case Rmw::Exchange: return v;
    }
    return v;
}

void change_value(Rmw op, const u8* old, const void* value, u8* next, u32 bytes) {
    std::memcpy(next, value, bytes);
    if (op == Rmw::Exchange) return;
    if (bytes == 8) {
        u64 o, v;
        std::memcpy(&o, old, 8);
        std::memcpy(&v, value, 8);
        v = changed_word(op, o, v);
        std::memcpy(next, &v, 8);
    } else {
        u32 o, v;
        std::memcpy(&o, old, 4);
        std::memcpy(&v, value, 4);
        v = changed_word(op, o, v);
        std::memcpy(next, &v, 4);
    }
}

// `next` makes the new value out of the old one, or says that there is none.
template <class Next>
bool change_in(Lane& lane, Region& region, void* p, void* old, u32 bytes, Scope scope, Order order, Site at, Next next) {
    u64 address = reinterpret_cast<u64>(p);
    Replay* replay = lane.worker->replay();
    if (replay == nullptr) return look_at_read(lane, region, address, bytes, at);
    if (region.kind != Memory::Shared && replay->changed(address, bytes)) fail_once(lane, region, address, at);
    if (releases(order)) replay->order(lane, scope);
    u8 was[16], will[16];
    if (!replay->memory().read_at(lane, region, address, bytes, scope, was)) fail_unknown(lane, region, address, bytes, at);
    if (acquires(order)) replay->memory().refresh(lane, scope);
    replay->note(lane, Step::Change, &region, address, word_of(was, bytes));
    if (next(was, will)) replay->memory().write_at(lane, region, address, bytes, scope, will, at);
    std::memcpy(old, was, bytes);
    return true;
}

// Begins an operation on memory. False if no observer wants it.
bool begin(Lane& lane, Site at) {
    if (!looks(lane)) {
        lane.worker->end_turn(lane, at);
        return false;
    }
    lane.worker->begin_step(lane, at);
    return true;
}

// Shared<T> has checked the index.
Region& checked_shared(Lane& lane, const void* p, u32 bytes, const char* what, Site at) {
    u64 address = reinterpret_cast<u64>(p);
    if (address % bytes != 0) {
        lane.worker->fail(lane, FaultKind::Misaligned, at, "%s of %u bytes of shared memory at %#llx, which is not a multiple of %u", what, bytes,
                          address, bytes);
    }
    return lane.warp->block->shared.region;
}

}  // namespace

bool ask_load(const void* p, void* out, u32 bytes, Scope scope, Order order, Cached cached, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    return load_from(lane, checked(lane, p, bytes, "load", at), p, out, bytes, scope, order, cached, at);
}

bool ask_store(void* p, const void* value, u32 bytes, Scope scope, Order order, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    return store_to(lane, checked(lane, p, bytes, "store", at), p, value, bytes, scope, order, at);
}

bool ask_rmw(void* p, Rmw op, const void* value, void* old, u32 bytes, Scope scope, Order order, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    Region& region = checked(lane, p, bytes, "atomic operation", at);
    return change_in(lane, region, p, old, bytes, scope, order, at, [&](const u8* was, u8* will) {
        change_value(op, was, value, will, bytes);
        return true;
    });
}

bool ask_cas(void* p, const void* expected, const void* desired, void* old, u32 bytes, Scope scope, Order order, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    Region& region = checked(lane, p, bytes, "cas", at);
    return change_in(lane, region, p, old, bytes, scope, order, at, [&](const u8* was, u8* will) {
        std::memcpy(will, desired, bytes);
        return std::memcmp(was, expected, bytes) == 0;
    });
}

bool ask_fence(Scope scope, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    Replay* replay = lane.worker->replay();
    if (replay == nullptr) return false;
    replay->order(lane, scope);
    replay->memory().refresh(lane, scope);
    replay->note(lane, Step::Fence, nullptr, 0, (u64)scope);
    return true;
}

bool ask_shared_load(const void* p, void* out, u32 bytes, Site at) {
    Lane& lane = this_lane();
    return begin(lane, at) && load_from(lane, checked_shared(lane, p, bytes, "load", at), p, out, bytes, Scope::Block, Order::Relaxed, Cached::First, at);
}

bool ask_shared_store(void* p, const void* value, u32 bytes, Site at) {
    Lane& lane = this_lane();
    return begin(lane, at) && store_to(lane, checked_shared(lane, p, bytes, "store", at), p, value, bytes, Scope::Block, Order::Relaxed, at);
}

bool ask_shared_rmw(void* p, Rmw op, const void* value, void* old, u32 bytes, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    Region& region = checked_shared(lane, p, bytes, "atomic operation", at);
    return change_in(lane, region, p, old, bytes, Scope::Block, Order::Relaxed, at, [&](const u8* was, u8* will) {
        change_value(op, was, value, will, bytes);
        return true;
    });
}

bool ask_shared_cas(void* p, const void* expected, const void* desired, void* old, u32 bytes, Site at) {
    Lane& lane = this_lane();
    if (!begin(lane, at)) return false;
    Region& region = checked_shared(lane, p, bytes, "cas", at);
    return change_in(lane, region, p, old, bytes, Scope::Block, Order::Relaxed, at, [&](const u8* was, u8* will) {
        std::memcpy(will, desired, bytes);
        return std::memcmp(was, expected, bytes) == 0;
    });
}

void meet_block(Site at) {
    Lane& lane = this_lane();
    lane.worker->meet_block(lane, at);
}

void step_aside(u32, Site at) {
    Lane& lane = this_lane();
    lane.worker->step_aside(lane, at);
}

// A lane's own operations: the same in every replay.
u64 ticks() {
    Lane& lane = this_lane();
    return lane.worker->ticks(lane);
}

void* static_shared(const void* tag, std::size_t bytes, std::size_t alignment, Site at) {
    Lane& lane = this_lane();
    SharedMemory& shared = lane.warp->block->shared;
    for (const SharedMemory::Declared& declared : shared.declared) {
        if (declared.tag == tag) return shared.bytes.get() + declared.offset;
    }
    u64 offset = (shared.used + alignment - 1) / alignment * alignment;
    if (offset + bytes > SharedMemory::kLimit) {
        lane.worker->fail(lane, FaultKind::SharedMemory, at, "the block needs %llu bytes of shared memory; it has %u", offset + bytes,
                          SharedMemory::kLimit);
    }
    shared.declared.push_back(SharedMemory::Declared{tag, (u32)offset});
    shared.used = (u32)(offset + bytes);
    return shared.bytes.get() + offset;
}

void* dynamic_shared(u32 offset, std::size_t element, std::size_t alignment, u32* length, Site at) {
    Lane& lane = this_lane();
    SharedMemory& shared = lane.warp->block->shared;
    if (offset > shared.dynamic || offset % alignment != 0) {
        lane.worker->fail(lane, FaultKind::SharedMemory, at,
                          "dynamic shared memory from byte %u, aligned to %zu; the launch gave %u bytes", offset, alignment, shared.dynamic);
    }
    *length = (u32)((shared.dynamic - offset) / element);
    return shared.bytes.get() + offset;
}

void fail_index(u32 index, u32 length, Site at) {
    Lane& lane = this_lane();
    lane.worker->fail(lane, FaultKind::OutOfBounds, at, "element %u of %u elements of shared memory", index, length);
}

void fail_assert(const char* text, u32 code, Site at) {
    Lane& lane = this_lane();
    lane.worker->fail_assertion(lane, code, at, text);
}

void check_params(std::size_t bytes) {
    Lane& lane = this_lane();
    Launch& launch = lane.worker->launch();
    if (launch.params_size != bytes) {
        lane.worker->fail(lane, FaultKind::BadParams, Site{"", 0}, "the kernel takes %zu bytes of parameters, the launch gave %zu", bytes,
                          launch.params_size);
    }
}

}  // namespace wk::sim
