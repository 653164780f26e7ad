// Warps and blocks that were used before: their stacks are mapped and their pages are there.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "lane.h"

namespace wk::sim {

// A lane's stack, and what lies below it and turns an overflow into a fault of the process.
constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::size_t kGuardBytes = 64 * 1024;

class Pool {
  public:
    ~Pool();
    // A block without warps. Null if there is no memory.
    std::unique_ptr<Block> take_block();
    // A warp with stacks. Null if there is no memory for them.
    std::unique_ptr<Warp> take_warp();
    // Maps the warp's stacks anew. False if there is no memory for them.
    static bool renew_stacks(Warp& warp);
    // Takes the block and its warps back.
    void give_back(std::unique_ptr<Block> block);

  private:
    std::mutex lock_;
    std::vector<std::unique_ptr<Warp>> warps_;
    std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace wk::sim
