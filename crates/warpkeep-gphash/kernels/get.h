// Reading a batch.
#pragma once
#include "twins.h"

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
    // By sixteen bytes where both lie so.
    u32 pairs = (found.value_at | (u64)to) % 16 == 0 ? t.value_words() / 2 : 0;
    for (u32 i = lane(); i < pairs; i += kWarp) store((U128*)to + i, load_l2((const U128*)t.at(found.value_at) + i));
    for (u32 i = 2 * pairs + lane(); i < t.value_words(); i += kWarp) store(to + i, record_word(t, found.value_at + 8 * i));
}

// Answers for a key, all lanes together.
WK_DEVICE void answer_key(const GetParams& p, u64 index, const Found& found) {
    if (found.there && p.values) copy_value(p.table, found, p.values + index * p.table.value_words());
    if (lane() == 0) {
        store(p.statuses + index, (u8)(found.there ? kOk : kNotFound));
        if (p.versions) store(p.versions + index, found.version);
    }
}

// Serves those of 32 keys that `which` names, a bit each, one by one and with all lanes of a warp.
WK_DEVICE void get_keys(const GetParams& p, u64 first, u64 own_hash, u32 which) {
    Warp warp;
    for (u32 left = which; left != 0; left &= left - 1) {
        u32 i = ffs(left) - 1;
        u64 index = first + i;
        Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
        answer_key(p, index, find(p.table, warp.shfl(own_hash, i), key));
    }
}

// Answers one key as another was answered, all lanes together.
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

WK_DEVICE u64 hash_of_row(const GetParams& p, u64 index) {
    return index < p.count ? Key{p.keys + index * p.table.key_words(), p.table.key_len()}.hash(p.table.seed) : 0;
}

// A thread a key; a warp serves its 32. Keys that a block has several times are looked up once, by `serve`, which is told how often if it `Counts`.
template <bool Counts, class Serve> WK_DEVICE void get_block(const GetParams& p, Serve serve) {
    Warp warp;
    u64 mine = global_index(), first = mine - lane();
    bool inside = mine < p.count;
    u64 hash = hash_of_row(p, mine);
    Twin twin = find_twin<Counts>(p.table, p.keys + mine * p.table.key_words(), hash, inside);
    serve(first, hash, warp.ballot(inside && twin.is_first()), twin.uses);
    if (!twin.repeats) return;
    // Answers of others are read below.
    sync_block();
    u64 of_block = mine - thread_index();
    for (u32 left = warp.ballot(inside && !twin.is_first()); left != 0; left &= left - 1) {
        u32 i = ffs(left) - 1;
        copy_answer(p, of_block + warp.shfl(twin.first, i), first + i);
    }
}

}  // namespace gphash
