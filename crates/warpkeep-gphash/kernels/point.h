// Where the records of keys lie, for a host that copies the values itself: keys come, offsets go, and nothing else crosses the link.
#pragma once
#include "values.h"

namespace gphash {

struct PointParams {
    Table table;
    u64 count;
    // Keys, a row of whole words each.
    const u64* keys;
    // For each the offset of its record; 0 if it has none, kVeiled if the image is to be asked. Where the mirror does not tell
    // keys apart that have the same hash, whoever reads the record compares.
    u64* records;
};

}  // namespace gphash

// A thread a key.
WK_KERNEL(gphash_point, gphash::PointParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.count) return;
    const Table& t = p.table;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    u64 record = locate_own(t, index < p.count ? key.hash(t.seed) : 0, key, index < p.count);
    // Which record that is stands beside a value that is in device memory.
    if (index < p.count) store(p.records + index, record > kVeiled ? record_behind(t, record) : record);
}
