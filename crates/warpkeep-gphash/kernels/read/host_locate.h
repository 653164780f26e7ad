// Locating keys for a host that copies the values itself: keys go to the device, offsets return, and nothing else
// crosses the link.
#pragma once
#include "value_cache/value_cache.h"

namespace gphash {

struct HostLocateParams {
    Table table;
    u64 count;
    // Keys, a row of whole words each.
    const u64* keys;
    // Per key the offset of its record; 0 if it does not exist, kBusy if the host must look in the image. Without exact
    // matches in the index, the host compares the key in the record.
    u64* records;
};

}  // namespace gphash

// One thread per key.
WK_KERNEL(gphash_host_locate, gphash::HostLocateParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.count) return;
    const Table& t = p.table;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    u64 target = find_target(t, index < p.count ? key.hash(t.seed) : 0, key, index < p.count);
    // The tail of a row has the offset of the record.
    if (index < p.count) store(p.records + index, target > kBusy ? target_record(t, target) : target);
}
