// Memory in which stores take their time.
//
// A store is first seen by its lane alone, then by the lane's block, then by the whole device; a store to image memory at
// last reaches the system, which is to say the image. Stores move on one by one, in an order drawn from the seed. Only
// these hold:
//  - stores to overlapping bytes keep their order at every stage, so that all agree on it;
//  - a lane sees its own stores, and a block what has reached it;
//  - a fence moves on to its scope what its lane has stored, and what others have ordered towards that lane before: the
//    block's stores behind a block fence, the device's behind a device fence;
//  - loads are carried out in order; a weak one may give what was there before (stale.h), others give what is there.
#pragma once
#include <array>
#include <vector>

#include "lane.h"
#include "log.h"
#include "rng.h"
#include "stale.h"

namespace wk::sim {

class WeakMemory {
  public:
    // `delays` and `ages`: whether stores take their time, and whether weak loads may be stale.
    WeakMemory(Rng& rng, StoreLog& log, const u64& now, u32 drain_chance, bool delays, bool ages)
        : rng_(rng), log_(log), now_(now), drain_chance_(drain_chance), delays_(delays), ages_(ages), stale_(rng) {}

    // What the lane sees at the address, where a weak load may see something old. False if it was not written.
    bool read(const Lane& lane, const Region& region, u64 address, u32 bytes, bool weak, u8* out);
    // The acquire half of an operation, or a fence: the lane, and with it its block, sees what is there now.
    void refresh(const Lane& lane, Scope scope);
    // The lane stores weakly or relaxed: as one store, or in words of 8 bytes if it may tear.
    void write(const Lane& lane, Region& region, u64 address, u32 bytes, const u8* value, bool may_tear, Site at);
    // Brings the lane's view of these bytes to the scope, as an atomic operation there needs it, and reads them.
    bool read_at(const Lane& lane, const Region& region, u64 address, u32 bytes, Scope scope, u8* out);
    // Stores what an atomic operation made of them.
    void write_at(const Lane& lane, Region& region, u64 address, u32 bytes, Scope scope, const u8* value, Site at);
    // A fence, or the release half of an operation.
    void order(const Lane& lane, Scope scope);
    // Time passes: stores may move on.
    void drift();
    // The block's shared memory is gone, with what was on its way there.
    void block_ended(u32 block);
    // The kernel is over: everything arrives, and counts as ordered.
    void settle();
    // The power is gone: what has not reached the image is listed as such.
    void lose();

  private:
    // How far a store has come, and how far fences have ordered it.
    enum Stage : u32 { OfLane = 0, OfBlock = 1, OfDevice = 2, OfSystem = 3 };
    struct Pending {
        Region* region;
        u64 address;
        u64 issued;
        u64 epoch;
        Site at;
        u32 bytes;
        u32 block;
        u32 thread;
        Stage stage;
        Stage ordered;
        u8 value[16];

        bool touches(u64 other, u32 size) const { return address < other + size && other < address + bytes; }
        bool is_of(const Lane& lane) const { return block == lane.block && thread == lane.thread; }
    };
    // Stores in the image that no system fence has behind it yet.
    struct Unfenced {
        std::size_t record;
        u32 block;
        u32 thread;
        Stage ordered;
    };

    // How many stores are on their way to each line of 16 bytes, which no access crosses. Lines share a count by their lowest bits, so a count of 0 means
    // that there are none.
    class LineCounts {
      public:
        u32 of(u64 address) const { return counts_[address / 16 % kLines]; }
        void add(u64 address) { counts_[address / 16 % kLines]++; }
        void remove(u64 address) { counts_[address / 16 % kLines]--; }
        void clear() { counts_.fill(0); }

      private:
        static constexpr u32 kLines = 1024;
        std::array<u32, kLines> counts_{};
    };

    static Stage stage_of(Scope scope) { return (Stage)((u32)scope + 1); }
    static Stage last_stage(const Region& region);
    // Whether a fence by `lane` must carry a store of this owner that has been ordered so far.
    static bool covers(const Lane& lane, u32 block, u32 thread, Stage ordered);
    // Lays over `out` what is on its way at this stage, and the lane sees; the bytes that it covered, as bits.
    u32 overlay(u32 block, u32 thread, u64 address, u32 bytes, Stage stage, u8* out) const;
    // What the whole device sees.
    u32 seen_by_device(u64 address, u32 bytes, u8* out) const;
    bool knows(const Region& region, u64 address, u32 bytes, u32 covered) const;
    void add(const Lane& lane, Region& region, u64 address, u32 bytes, const u8* value, Stage stage, Site at);
    std::size_t first_in_the_way(std::size_t which) const;
    // Moves one store a stage further; `which` must have nothing in its way.
    void advance(std::size_t which);
    // Moves everything that `wanted` names to the stage, and what is in its way.
    template <class Wanted> void push(Stage stage, Wanted wanted);
    void arrive(const Pending& store, u64 arrived);

    Rng& rng_;
    StoreLog& log_;
    const u64& now_;
    u32 drain_chance_;
    bool delays_;
    bool ages_;
    StaleViews stale_;
    u64 epoch_ = 0;
    // Within each stage in the order of arrival there.
    std::vector<Pending> pending_;
    LineCounts lines_;
    std::vector<Unfenced> unfenced_;
};

}  // namespace wk::sim
