// An operating-system thread that runs blocks: the scheduler of their lanes.
#pragma once
#include <memory>
#include <vector>

#include "lane.h"
#include "launch.h"

namespace wk::sim {

class Machine;
class Replay;

class Worker {
  public:
    // `replay` is the seeded world, or null in fast mode.
    Worker(Machine& machine, Launch& launch, Replay* replay);
    ~Worker();

    // Runs blocks until there are none left or the launch is stopped.
    void run();

    // What lanes call. Each is on a lane's stack.
    u64 meet(Lane& lane, Kind kind, u32 mask, u64 value, u32 from, Site at);
    void meet_block(Lane& lane, Site at);
    // All of the gathering have come: gives each its result, and the caller its own.
    u64 complete(Lane& lane, Gathering& gathering);
    // Hands over to the scheduler until it is this lane's turn again; gives what it got meanwhile.
    u64 go_home(Lane& lane);
    // Lets others run; the lane goes on later.
    void step_aside(Lane& lane, Site at);
    // A lane's allowance is spent: counts, and lets others run.
    void end_turn(Lane& lane, Site at);
    // Operations the lane has done.
    u64 ticks(const Lane& lane) const;
    // A memory operation that is checked or delayed begins.
    void begin_step(Lane& lane, Site at);
    [[noreturn]] void fail(Lane& lane, FaultKind kind, Site at, const char* format, ...)
        __attribute__((format(printf, 5, 6)));
    [[noreturn]] void fail_assertion(Lane& lane, u32 code, Site at, const char* text);
    [[noreturn]] void finish(Lane& lane);
    // The power goes: no lane runs on.
    [[noreturn]] void crash(Lane& lane);

    Machine& machine() { return machine_; }
    Launch& launch() { return launch_; }
    Replay* replay() { return replay_; }

  private:
    bool start_block();
    void start_warp(Block& block, Warp& warp, u32 index, u32 lanes);
    void retire(std::size_t which);
    void run_fast();
    void run_seeded();
    Lane* pick();
    void resume(Lane& lane);
    u64 leave(Lane& lane);
    [[noreturn]] void go_home_for_good(Lane& lane);
    void count(Lane& lane, u64 steps, Site at);
    void release_barrier(Block& block);
    void report_stuck(Block& block);
    void record(const Lane& lane, FaultKind kind, Site at, const char* detail, u32 code = 0);

    Machine& machine_;
    Launch& launch_;
    Replay* replay_;
    // Memory operations of a turn; 0 where the simulator is asked about every one.
    int turn_;
    Context home_;
    void* home_fiber_ = nullptr;
    u64 switches_ = 0;
    u64 lane_steps_ = 0;
    std::vector<std::unique_ptr<Block>> resident_;
    // Warps with lanes that can run; kept for its memory.
    std::vector<Warp*> candidates_;
};

}  // namespace wk::sim
