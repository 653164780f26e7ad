// Gets from the image. A warp serves 32 keys one by one, with all its lanes (find.h). Keys that occur several times in
// a block are looked up once, and the result is copied.
#pragma once
#include "find.h"
#include "warpkeep/duplicates.h"

namespace gphash {

// Status codes of warpkeep-core.
enum Status : u8 {
    kPendingStatus = 0x00,
    kOk = 0x10,
    kCreated = 0x11,
    kNotFound = 0x20,
    kAlreadyExists = 0x21,
    kVersionMismatch = 0x22,
    kWrongType = 0x31,
    kMalformed = 0x32,
    kTableFull = 0x40,
};

struct GetParams {
    Table table;
    u64 count;
    // Keys, a row of whole words each.
    const u64* keys;
    // Results per key: status, version, and the value in a row of whole words. Versions and values may be null.
    u8* statuses;
    u64* versions;
    u64* values;
};

// Copies the value of an item, by all lanes of a warp.
WK_DEVICE void copy_value(const Table& t, const Item& item, u64* to) {
    if (t.body() == kInline) {
        if (lane() == 0) store(to, item.word);
        return;
    }
    // In units of 16 bytes where both addresses are aligned to it.
    u32 pairs = (item.value_at | (u64)to) % 16 == 0 ? t.value_words() / 2 : 0;
    for (u32 i = lane(); i < pairs; i += kWarp) store((U128*)to + i, load_l2((const U128*)t.at(item.value_at) + i));
    for (u32 i = 2 * pairs + lane(); i < t.value_words(); i += kWarp) {
        store(to + i, record_word(t, item.value_at + 8 * i));
    }
}

// Stores the result of a key, by all lanes of a warp.
WK_DEVICE void answer_key(const GetParams& p, u64 index, const Item& item) {
    if (item.exists && p.values) copy_value(p.table, item, p.values + index * p.table.value_words());
    if (lane() == 0) {
        store(p.statuses + index, (u8)(item.exists ? kOk : kNotFound));
        if (p.versions) store(p.versions + index, item.version);
    }
}

// Gets the keys of the lanes in `lanes`, one by one, with all lanes of a warp.
WK_DEVICE void get_keys(const GetParams& p, u64 first, u64 own_hash, u32 lanes) {
    Warp warp;
    for (u32 remaining = lanes; remaining != 0; remaining &= remaining - 1) {
        u32 i = ffs(remaining) - 1;
        u64 index = first + i;
        Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
        answer_key(p, index, find(p.table, warp.shfl(own_hash, i), key));
    }
}

// Copies the result of one key to another, by all lanes of a warp.
WK_DEVICE void copy_answer(const GetParams& p, u64 from, u64 to) {
    u8 status = load(p.statuses + from);
    if (p.values && status == kOk) {
        u32 words = p.table.value_words();
        for (u32 i = lane(); i < words; i += kWarp) store(p.values + to * words + i, load(p.values + from * words + i));
    }
    if (lane() == 0) {
        store(p.statuses + to, status);
        if (p.versions) store(p.versions + to, load(p.versions + from));
    }
}

WK_DEVICE bool same_rows(const Table& t, const u64* keys, u64 one, u64 other) {
    u32 words = t.key_words();
    u64 differ = 0;
    for (u32 i = 0; i < words; i++) differ |= load(keys + one * words + i) ^ load(keys + other * words + i);
    return differ == 0;
}

WK_DEVICE u64 hash_of_row(const GetParams& p, u64 index) {
    return index < p.count ? Key{p.keys + index * p.table.key_words(), p.table.key_len()}.hash(p.table.seed) : 0;
}

// Gets the keys of a block, one per thread. `serve` looks up each distinct key once; with `Counts` it also gets the
// number of its duplicates.
template <bool Counts, class Serve> WK_DEVICE void get_block(const GetParams& p, Serve serve) {
    Warp warp;
    u64 own_index = global_index(), first = own_index - lane();
    bool inside = own_index < p.count;
    u64 hash = hash_of_row(p, own_index);
    Duplicate duplicate = find_duplicate<Counts>(hash, inside, [&](u32 other) {
        return same_rows(p.table, p.keys, own_index, own_index - thread_index() + other);
    });
    serve(first, hash, warp.ballot(inside && duplicate.is_first()), duplicate.uses);
    if (!duplicate.repeats) return;
    // Results of other warps are read below.
    sync_block();
    u64 block_first = own_index - thread_index();
    for (u32 remaining = warp.ballot(inside && !duplicate.is_first()); remaining != 0; remaining &= remaining - 1) {
        u32 i = ffs(remaining) - 1;
        copy_answer(p, block_first + warp.shfl(duplicate.first, i), first + i);
    }
}

}  // namespace gphash
