// Batches of gets with keys and answers in device memory whose values the cores of the host copy. Values here and there come over the link
// one translation of an address after the other; cores gather them several times as fast, and the link carries them up in a row. So the
// device answers what it knows itself, tells the host which records are left, and copies up what the host has gathered.
#pragma once
#include "few.h"

namespace gphash {

struct TellHostParams {
    GetParams get;
    // For each key the record whose value the host is to copy, in memory of the host; 0 if there is none, or the key is answered.
    u64* records;
};

struct DeliverParams {
    GetParams get;
    // The first of the batch, and how many.
    u64 first;
    u64 count;
    // As they were told; and what the host has copied, by the same indices, in memory of the host.
    const u64* records;
    const u64* values;
    const u64* versions;
    // Whether rows are aligned to 16 bytes.
    u64 wide;
};

// `Part` is what a thread moves at once. As many threads as there are.
template <class Part> WK_DEVICE void deliver(const DeliverParams& p) {
    u32 parts = p.get.table.value_words() * 8 / sizeof(Part);
    for (u64 i = global_index(); i < p.count * parts; i += global_size()) {
        u64 index = p.first + i / parts;
        if (!load(p.records + index)) continue;
        u64 at = index * parts + i % parts;
        store((Part*)p.get.values + at, load((const Part*)p.values + at));
        if (i % parts == 0 && p.get.versions) store(p.get.versions + index, load(p.versions + index));
    }
}

}  // namespace gphash

// Answers keys but for what the host is to copy. A thread a key, in blocks of any size.
WK_KERNEL(gphash_tell_host, gphash::TellHostParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    u64 index = global_index(), first = index - lane();
    if (first >= get.count) return;
    bool wanted = index < get.count;
    Key key{get.keys + index * t.key_words(), t.key_len()};
    u64 hash = wanted ? key.hash(t.seed) : 0;
    u64 record = locate_own(t, hash, key, wanted);
    bool there = wanted && record > kVeiled;
    bool asks = wanted && record == kVeiled;
    // Other keys can have the same hash.
    if (there && !tells_keys_apart(t) && !record_has_key(t, key_behind(t, record), key)) {
        there = false;
        asks = true;
    }
    if (wanted) store(p.records + index, there ? record_behind(t, record) : 0);
    if (wanted && !asks) {
        store(get.statuses + index, (u8)(there ? kOk : kNotFound));
        if (get.versions && !there) store(get.versions + index, (u64)0);
    }
    ask_image(get, first, hash, Warp().ballot(asks));
}

// Copies up what the host has gathered, where it has.
WK_KERNEL(gphash_deliver, gphash::DeliverParams) {
    using namespace gphash;
    if (p.wide) deliver<U128>(p);
    else deliver<u64>(p);
}
