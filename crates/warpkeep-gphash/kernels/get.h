// Reading a batch.
#pragma once
#include "find.h"

namespace gphash {

// Status codes of warpkeep-core.
enum Status : u8 {
    kOk = 0x10,
    kCreated = 0x11,
    kNotFound = 0x20,
    kAlreadyExists = 0x21,
    kVersionMismatch = 0x22,
    kWrongType = 0x31,
    kTableFull = 0x40,
};

struct GetParams {
    Table table;
    u64 count;
    // Keys, a row of whole words each.
    const u64* keys;
    // For each: status, version, and a row of whole words with the value. Versions and values may be null.
    u8* statuses;
    u64* versions;
    u64* values;
};

// Copies the value of what was found, all lanes together.
WK_DEVICE void copy_value(const Table& t, const Found& found, u64* to) {
    if (t.body() == kInline) {
        if (lane() == 0) store(to, found.word);
        return;
    }
    for (u32 i = lane(); i < t.value_words(); i += kWarp) store(to + i, load(t.at(found.value_at) + i));
}

// Answers for a key, all lanes together.
WK_DEVICE void answer_key(const GetParams& p, u64 index, const Found& found) {
    if (found.there && p.values) copy_value(p.table, found, p.values + index * p.table.value_words());
    if (lane() == 0) {
        store(p.statuses + index, (u8)(found.there ? kOk : kNotFound));
        if (p.versions) store(p.versions + index, found.version);
    }
}

// A warp serves 32 keys one by one, with all its lanes.
WK_DEVICE void get_keys(const GetParams& p, u64 first) {
    Warp warp;
    if (first >= p.count) return;
    Tally tally{0, 0};
    u64 mine = first + lane();
    Key own{p.keys + mine * p.table.key_words(), p.table.key_len()};
    u64 own_hash = mine < p.count ? own.hash(p.table.seed) : 0;
    u64 rest = p.count - first;
    for (u32 i = 0; i < kWarp && i < rest; i++) {
        u64 index = first + i;
        u64 hash = warp.shfl(own_hash, i);
        Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
        answer_key(p, index, find(p.table, hash, key, tally));
    }
    add_tally(p.table.cache, tally);
}

}  // namespace gphash

// A warp for every 32 keys.
WK_KERNEL(gphash_get, gphash::GetParams) {
    using namespace gphash;
    get_keys(p, (u64)global_index() / kWarp * kWarp);
}
