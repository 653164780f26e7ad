// A baseline for benchmarks: gets with one thread per key, which reads its slots one after the other. Compared with the
// warps of find.h that read all slots at once.
#pragma once
#include "read/get.h"

namespace gphash {

// Finds a key in one slot.
WK_DEVICE Item find_in_slot(const Table& t, const Slot& slot, u64 expected, u64 hash, const Key& key) {
    ImageReader source{t};
    Item item = no_item();
    u64 state = slot.is_valid() ? source.read(slot.state_at()) : kEmpty;
    if (state == kEmpty || !has_key(t, slot, source, state, expected, hash, key)) return item;
    item.exists = true;
    item.state_at = slot.state_at();
    item.commit_at = t.body() == kPacked ? item.state_at : slot.payload_at(t);
    item.commit = t.body() == kPacked ? state : source.read(item.commit_at);
    while (t.body() != kPacked) {
        // As in find.h: valid only if no writer reused the slot meanwhile.
        if (t.body() == kInline) item.word = source.read(item.commit_at + 8 * (1 + (item.commit & 1)));
        item.exists = source.read(item.state_at) == state;
        u64 again = source.read(item.commit_at);
        if (!item.exists || again == item.commit) break;
        item.commit = again;
    }
    if (t.body() == kInline) {
        item.version = item.commit >> 1;
    } else if (item.exists) {
        u64 record = record_of(t, item.commit);
        item.value_at = t.value_at(record);
        item.version = peek(t, t.version_at(record));
    }
    return item;
}

// Finds a key in an overflow.
WK_DEVICE Item find_in_overflow_alone(const Table& t, const Run& run, u64 expected, u64 hash, const Key& key) {
    for (u32 i = 0; i < kOverflowReach * t.slots(); i++) {
        Item item = find_in_slot(t, overflow_slot(t, run, hash, i), expected, hash, key);
        if (item.exists) return item;
    }
    return no_item();
}

// Finds a key: the slots of find.h, in the same order.
WK_DEVICE Item find_alone(const Table& t, u64 hash, const Key& key) {
    i32 special_slot = t.special_slot(hash);
    if (special_slot >= 0) return find_in_slot(t, Slot{t.special_slots, (u32)special_slot}, kSpecial, hash, key);
    u64 expected = t.fingerprint(hash);
    for (u32 i = 1; i < t.overflows; i++) {
        Item item = find_in_overflow_alone(t, t.overflow[i], expected, hash, key);
        if (item.exists) return item;
    }
    for (u32 i = 0; i < t.drained_count * kWarp; i++) {
        Item item = find_in_slot(t, level_slot(t, t.drained_first + i / kWarp, hash, i % kWarp), expected, hash, key);
        if (item.exists) return item;
    }
    for (u32 i = 0; i < kWarp; i++) {
        Item item = find_in_slot(t, open_slot(t, hash, i), expected, hash, key);
        if (item.exists) return item;
    }
    if (!t.overflow_in_use) return no_item();
    return find_in_overflow_alone(t, t.overflow[0], expected, hash, key);
}

}  // namespace gphash

WK_KERNEL(gphash_paper_get_alone, gphash::GetParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index >= p.count) return;
    const Table& t = p.table;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    Item item = find_alone(t, key.hash(t.seed), key);
    if (item.exists && p.values) {
        u64* to = p.values + index * t.value_words();
        if (t.body() == kInline) {
            store(to, item.word);
        } else {
            for (u32 i = 0; i < t.value_words(); i++) store(to + i, load(t.at(item.value_at) + i));
        }
    }
    store(p.statuses + index, (u8)(item.exists ? kOk : kNotFound));
    if (p.versions) store(p.versions + index, item.version);
}
