#include "worker.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "machine.h"
#include "replay.h"
#include "tsan.h"

namespace wk::sim {

__thread LaneFace* current_lane __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

// Long enough that a switch costs nothing beside it, short enough that a lane that spins lets the others on soon.
constexpr int kTurn = 2048;

Lane& this_lane() { return *static_cast<Lane*>(current_lane); }

// The bottom of every lane's stack.
void lane_main() {
    Lane& lane = this_lane();
    Launch& launch = lane.worker->launch();
    launch.entry(launch.params);
    lane.worker->finish(lane);
}

}  // namespace

Worker::Worker(Machine& machine, Launch& launch, Replay* replay)
    : machine_(machine),
      launch_(launch),
      replay_(replay),
      turn_(replay != nullptr || launch.options.checked ? 0 : kTurn),
      home_fiber_(tsan::this_fiber()) {}

Worker::~Worker() {
    // Lanes that have not returned are dropped where they are.
    while (!resident_.empty()) retire(resident_.size() - 1);
    current_lane = nullptr;
    launch_.switches.fetch_add(switches_, std::memory_order_relaxed);
    launch_.lane_steps.fetch_add(lane_steps_, std::memory_order_relaxed);
}

void Worker::run() {
    if (replay_ != nullptr) {
        run_seeded();
    } else {
        run_fast();
    }
}

void Worker::run_fast() {
    // One block at a time leaves the others to other workers; a block that takes long may be waiting for one that has not begun.
    std::size_t wanted = 1;
    while (!launch_.stop.load(std::memory_order_relaxed)) {
        while (resident_.size() < wanted && start_block()) {
        }
        if (resident_.empty()) return;
        std::size_t before = resident_.size();
        for (std::size_t b = 0; b < resident_.size();) {
            Block& block = *resident_[b];
            bool ran = false;
            for (auto& warp : block.warps) {
                warp->spent = 0;
                if (u32 runnable = warp->runnable()) {
                    resume(warp->lanes[__builtin_ctz(runnable)]);
                    ran = true;
                    if (launch_.stop.load(std::memory_order_relaxed)) return;
                }
            }
            if (block.live == 0) {
                retire(b);
                continue;
            }
            if (!ran) return report_stuck(block);
            b++;
        }
        if (resident_.size() < before) {
            wanted = std::max<std::size_t>(1, resident_.size());
        } else {
            wanted = std::min<std::size_t>(resident_.size() + 1, launch_.options.resident);
        }
    }
}

void Worker::run_seeded() {
    while (!launch_.stop.load(std::memory_order_relaxed)) {
        for (std::size_t b = 0; b < resident_.size();) {
            if (resident_[b]->live == 0) {
                retire(b);
            } else {
                b++;
            }
        }
        while (resident_.size() < launch_.options.resident && start_block()) {
        }
        if (resident_.empty() || launch_.stop.load(std::memory_order_relaxed)) return;
        Lane* lane = pick();
        if (lane == nullptr) return;
        resume(*lane);
    }
}

// Any lane that can run, each as likely as the other warps' lanes let it; null if a block is stuck.
Lane* Worker::pick() {
    candidates_.clear();
    for (auto& block : resident_) {
        std::size_t before = candidates_.size();
        for (auto& warp : block->warps) {
            warp->spent = 0;
            if (warp->runnable() != 0) candidates_.push_back(warp.get());
        }
        if (candidates_.size() == before) {
            report_stuck(*block);
            return nullptr;
        }
    }
    Warp& warp = *candidates_[replay_->rng().below((u32)candidates_.size())];
    u32 runnable = warp.runnable();
    for (u32 skip = replay_->rng().below(popc(runnable)); skip > 0; skip--) runnable &= runnable - 1;
    return &warp.lanes[__builtin_ctz(runnable)];
}

bool Worker::start_block() {
    u32 index = launch_.next_block.load(std::memory_order_relaxed);
    do {
        if (index >= launch_.grid.blocks) return false;
    } while (!launch_.next_block.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
    std::unique_ptr<Block> block = machine_.pool().take_block();
    u32 threads = launch_.grid.threads;
    u32 warps = (threads + kWarp - 1) / kWarp;
    for (u32 w = 0; block && w < warps; w++) {
        std::unique_ptr<Warp> warp = machine_.pool().take_warp();
        // To the sanitizer, a lane that gets the stack of an earlier one would seem to race with it.
        if (warp && tsan::kOn && !Pool::renew_stacks(*warp)) warp.reset();
        if (!warp) {
            machine_.pool().give_back(std::move(block));
            break;
        }
        block->warps.push_back(std::move(warp));
    }
    if (!block) {
        record(Lane{}, FaultKind::Resources, {"", 0}, "no memory for the stacks of a block; launch smaller or fewer blocks at once");
        return false;
    }
    block->index = index;
    block->live = threads;
    block->at_barrier = 0;
    SharedMemory& shared = block->shared;
    // The block that had this memory before has written as much as it used, and nothing behind that.
    u32 used_before = shared.used;
    shared.declared.clear();
    shared.dynamic = launch_.grid.shared_bytes;
    shared.used = (shared.dynamic + 15) & ~15u;
    shared.region.base = reinterpret_cast<u64>(shared.bytes.get());
    shared.region.size = SharedMemory::kLimit;
    shared.region.kind = Memory::Shared;
    std::vector<u8>& known = shared.region.known;
    if (turn_ == 0 && known.empty()) {
        known.assign(SharedMemory::kLimit, 0);
    } else if (turn_ == 0) {
        std::fill_n(known.begin(), used_before, (u8)0);
    } else {
        known.clear();
    }
    for (u32 w = 0; w < warps; w++) {
        u32 lanes = threads - w * kWarp < kWarp ? threads - w * kWarp : kWarp;
        start_warp(*block, *block->warps[w], w, lanes);
    }
    resident_.push_back(std::move(block));
    return true;
}

void Worker::start_warp(Block& block, Warp& warp, u32 index, u32 lanes) {
    warp.block = &block;
    warp.index = index;
    warp.live = lanes == kWarp ? ~0u : (1u << lanes) - 1;
    warp.blocked = warp.at_barrier = warp.spent = warp.open = 0;
    warp.hands_over = turn_ > 0 && !tsan::kOn;
    for (Gathering& gathering : warp.gatherings) gathering.mask = 0;
    for (u32 i = 0; i < lanes; i++) {
        Lane& lane = warp.lanes[i];
        lane.allowance = turn_;
        lane.thread = index * kWarp + i;
        lane.block = block.index;
        lane.block_size = launch_.grid.threads;
        lane.grid_size = launch_.grid.blocks;
#if defined(WK_SIM_TSAN)
        lane.fenced = false;
        lane.recent_loads = 0;
#endif
        lane.warp = &warp;
        lane.worker = this;
        lane.index = i;
        lane.at = {"", 0};
        lane.steps = 0;
        lane.fiber = tsan::new_fiber();
        // Stacks lie a power of two apart: without an offset the tops of all 32 would share one set of the cache.
        std::size_t offset = i * 576;
        char* top = warp.stacks + (i + 1) * (kStackBytes + kGuardBytes) - offset;
        prepare(lane.context, top, kStackBytes - offset, lane_main);
    }
}

void Worker::retire(std::size_t which) {
    std::unique_ptr<Block> block = std::move(resident_[which]);
    resident_.erase(resident_.begin() + (std::ptrdiff_t)which);
    for (auto& warp : block->warps) {
        for (u32 i = 0; i < kWarp; i++) {
            Lane& lane = warp->lanes[i];
            // Lanes that this block did not have are left from an earlier one.
            if (lane.warp == warp.get()) lane_steps_ += ticks(lane);
            lane.warp = nullptr;
            tsan::end_fiber(lane.fiber);
        }
    }
    if (replay_ != nullptr) replay_->memory().block_ended(block->index);
    machine_.pool().give_back(std::move(block));
}

void Worker::resume(Lane& lane) {
    switches_++;
    current_lane = &lane;
    tsan::switch_to(lane.fiber);
    switch_context(home_, lane.context, lane.warp->got[lane.index]);
}

u64 Worker::go_home(Lane& lane) {
    tsan::switch_to(home_fiber_);
    return switch_context(lane.context, home_, 0);
}

// In fast mode the next lane of the warp goes on at once; only when there is none is the scheduler asked.
u64 Worker::leave(Lane& lane) {
    if (replay_ == nullptr && !launch_.stop.load(std::memory_order_relaxed)) {
        if (u32 runnable = lane.warp->runnable()) {
            Lane& next = lane.warp->lanes[__builtin_ctz(runnable)];
            if (&next == &lane) return lane.warp->got[lane.index];
            switches_++;
            current_lane = &next;
            tsan::switch_to(next.fiber);
            return switch_context(lane.context, next.context, next.warp->got[next.index]);
        }
    }
    return go_home(lane);
}

void Worker::go_home_for_good(Lane& lane) {
    for (;;) go_home(lane);
}

void Worker::count(Lane& lane, u64 steps, Site at) {
    lane.steps += steps;
    if (lane.steps > launch_.options.step_limit) {
        fail(lane, FaultKind::Runaway, at,
             "the lane has done %llu operations and is not done; it may wait for what never comes, or raise the step limit",
             lane.steps);
    }
}

void Worker::end_turn(Lane& lane, Site at) {
    lane.at = at;
    if (turn_ > 0) {
        lane.allowance = turn_;
        count(lane, (u64)turn_, at);
    } else {
        lane.allowance = 0;
        count(lane, 1, at);
        if (lane.steps % kTurn != 0) return;
    }
    lane.warp->spent |= lane.bit();
    leave(lane);
}

void Worker::begin_step(Lane& lane, Site at) {
    if (replay_ == nullptr) return end_turn(lane, at);
    lane.at = at;
    lane.allowance = 0;
    count(lane, 1, at);
    if (replay_->rng().chance(launch_.options.switch_chance)) leave(lane);
    if (replay_->step()) crash(lane);
}

void Worker::step_aside(Lane& lane, Site at) {
    lane.at = at;
    count(lane, 1, at);
    lane.warp->spent |= lane.bit();
    leave(lane);
}

u64 Worker::ticks(const Lane& lane) const { return lane.steps + (turn_ > 0 ? (u64)(turn_ - lane.allowance) : 0); }

void Worker::finish(Lane& lane) {
    Warp& warp = *lane.warp;
    Block& block = *warp.block;
    warp.live &= ~lane.bit();
    block.live--;
    tsan::release(&launch_);
    for (u32 open = warp.open; open != 0; open &= open - 1) {
        Gathering& gathering = warp.gatherings[__builtin_ctz(open)];
        if (gathering.mask & lane.bit()) {
            Lane& waiting = warp.lanes[__builtin_ctz(gathering.arrived)];
            fail(waiting, FaultKind::LaneGone, gathering.at, "lane %u waits for lane %u, which has returned (mask %08x)",
                 waiting.index, lane.index, gathering.mask);
        }
    }
    if (block.at_barrier != 0 && block.at_barrier == block.live) release_barrier(block);
    if (replay_ == nullptr) leave(lane);
    go_home_for_good(lane);
}

void Worker::crash(Lane& lane) {
    launch_.crashed = true;
    launch_.stop.store(true, std::memory_order_relaxed);
    go_home_for_good(lane);
}

void Worker::fail(Lane& lane, FaultKind kind, Site at, const char* format, ...) {
    char detail[sizeof(Fault::detail)];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    record(lane, kind, at, detail);
    go_home_for_good(this_lane());
}

void Worker::fail_assertion(Lane& lane, u32 code, Site at, const char* text) {
    record(lane, FaultKind::Assertion, at, text, code);
    go_home_for_good(lane);
}

void Worker::record(const Lane& lane, FaultKind kind, Site at, const char* detail, u32 code) {
    {
        std::lock_guard<std::mutex> held(launch_.fault_lock);
        Fault& fault = launch_.fault;
        // The first fault is the cause; what follows may be its effect.
        if (fault.kind == FaultKind::None) {
            fault.kind = kind;
            fault.block = lane.block;
            fault.warp = lane.warp ? lane.warp->index : 0;
            fault.lane = lane.index;
            fault.at = at;
            fault.code = code;
            std::snprintf(fault.detail, sizeof fault.detail, "%s", detail);
        }
    }
    launch_.stop.store(true, std::memory_order_relaxed);
}

}  // namespace wk::sim
