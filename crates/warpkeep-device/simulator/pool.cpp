#include "pool.h"

#include <sys/mman.h>

#include <new>

namespace wk::sim {

namespace {

constexpr std::size_t kSpan = kStackBytes + kGuardBytes;

char* map_stacks() {
    void* slab = mmap(nullptr, kSpan * kWarp, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab == MAP_FAILED) return nullptr;
    char* stacks = static_cast<char*>(slab);
    for (u32 i = 0; i < kWarp; i++) {
        if (mprotect(stacks + i * kSpan, kGuardBytes, PROT_NONE) != 0) {
            munmap(slab, kSpan * kWarp);
            return nullptr;
        }
    }
    return stacks;
}

}  // namespace

Pool::~Pool() {
    for (auto& warp : warps_) munmap(warp->stacks, kSpan * kWarp);
}

std::unique_ptr<Block> Pool::take_block() {
    {
        std::lock_guard<std::mutex> held(lock_);
        if (!blocks_.empty()) {
            std::unique_ptr<Block> block = std::move(blocks_.back());
            blocks_.pop_back();
            return block;
        }
    }
    std::unique_ptr<Block> block(new (std::nothrow) Block);
    if (block) block->shared.bytes.reset(new (std::nothrow) u8[SharedMemory::kLimit]);
    return block && block->shared.bytes ? std::move(block) : nullptr;
}

std::unique_ptr<Warp> Pool::take_warp() {
    {
        std::lock_guard<std::mutex> held(lock_);
        if (!warps_.empty()) {
            std::unique_ptr<Warp> warp = std::move(warps_.back());
            warps_.pop_back();
            return warp;
        }
    }
    std::unique_ptr<Warp> warp(new (std::nothrow) Warp);
    if (!warp) return nullptr;
    warp->stacks = map_stacks();
    return warp->stacks ? std::move(warp) : nullptr;
}

bool Pool::renew_stacks(Warp& warp) {
    char* fresh = map_stacks();
    if (fresh == nullptr) return false;
    munmap(warp.stacks, kSpan * kWarp);
    warp.stacks = fresh;
    return true;
}

void Pool::give_back(std::unique_ptr<Block> block) {
    std::lock_guard<std::mutex> held(lock_);
    for (auto& warp : block->warps) warps_.push_back(std::move(warp));
    block->warps.clear();
    blocks_.push_back(std::move(block));
}

}  // namespace wk::sim
