// What a block may still see of memory that others have changed: the first cache of a GPU, which is not coherent.
//
// A weak load may give what was there before, as far back as the block's last acquire or fence of device scope or wider, by any of
// its lanes. It never goes back behind what the block has seen of the same word, nor behind its own stores.
#pragma once
#include <deque>
#include <unordered_map>

#include "rng.h"

namespace wk::sim {

class StaleViews {
  public:
    explicit StaleViews(Rng& rng) : rng_(rng) {}

    // A store of `block` becomes visible to the device in place of `old`.
    void changed(u32 block, u64 address, u32 bytes, const u8* old, u64 now);
    // The block sees everything up to now.
    void refresh(u32 block, u64 now);
    // A load that sees what is there now.
    void saw(u32 block, u64 address, u32 bytes, u64 now);
    // A weak load: `value` is what is there now, and may become what was there.
    void age(u32 block, u64 address, u32 bytes, u8* value, u64 now);

  private:
    struct Change {
        u64 address;
        u64 step;
        u32 bytes;
        u32 block;
        u8 old[16];
    };
    struct View {
        u64 horizon = 0;
        // By word of 8 bytes: the step as of which it was last seen.
        std::unordered_map<u64, u64> seen;
    };

    Rng& rng_;
    // The newest last.
    std::deque<Change> changes_;
    std::unordered_map<u32, View> views_;
};

}  // namespace wk::sim
