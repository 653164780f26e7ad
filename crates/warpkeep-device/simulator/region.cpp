#include "region.h"

namespace wk::sim {

u32 RegionTable::add(u64 base, u64 size, Memory kind, bool initialised, bool tracked) {
    if (size == 0 || base == 0 || base + size < base) return 0;
    // Whatever begins below our end and does not end by our beginning is in the way.
    auto it = regions_.lower_bound(base);
    if (it != regions_.begin()) --it;
    while (it != regions_.end() && it->first < base + size) {
        Region& other = it->second;
        if (other.base + other.size <= base) {
            ++it;
        } else if (other.freed) {
            it = regions_.erase(it);
        } else {
            return 0;
        }
    }
    Region region;
    region.base = base;
    region.size = size;
    region.kind = kind;
    region.id = ++last_id_;
    if (tracked && kind == Memory::Device && !initialised) region.known.assign(size, 0);
    u32 id = region.id;
    regions_.emplace(base, std::move(region));
    return id;
}

bool RegionTable::remove(u64 base, bool remember) {
    auto it = regions_.find(base);
    if (it == regions_.end() || it->second.freed) return false;
    if (remember) {
        it->second.freed = true;
        it->second.known = std::vector<u8>();
    } else {
        regions_.erase(it);
    }
    return true;
}

bool RegionTable::note_written(u64 base, u64 size) {
    while (size > 0) {
        Region* region = find(base);
        if (region == nullptr || region->freed) return false;
        u64 here = region->base + region->size - base;
        if (here > size) here = size;
        region->note_written(base, here);
        base += here;
        size -= here;
    }
    return true;
}

Region* RegionTable::find(u64 address) {
    auto it = regions_.upper_bound(address);
    if (it == regions_.begin()) return nullptr;
    --it;
    Region& region = it->second;
    return address - region.base < region.size ? &region : nullptr;
}

}  // namespace wk::sim
