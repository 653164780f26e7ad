// Reading a batch with a thread for each key, which looks at its slots one after the other: what warps that work together are compared with.
// A baseline for benchmarks.
#pragma once
#include "get.h"

namespace gphash {

// What one slot has for a key.
WK_DEVICE Found look_alone(const Table& t, const Slot& slot, u64 wanted, u64 hash, const Key& key) {
    InImage source{t};
    Found found = nothing();
    u64 state = slot.is() ? source.read(slot.state_at()) : kEmpty;
    if (state == kEmpty || !has_key(t, slot, source, state, wanted, hash, key)) return found;
    found.there = true;
    found.state_at = slot.state_at();
    found.commit_at = t.body() == kPacked ? found.state_at : slot.payload_at(t);
    found.commit = t.body() == kPacked ? state : source.read(found.commit_at);
    while (t.body() != kPacked) {
        // As in find.h: believed only if nobody has used the slot again meanwhile.
        if (t.body() == kInline) found.word = source.read(found.commit_at + 8 * (1 + (found.commit & 1)));
        found.there = source.read(found.state_at) == state;
        u64 again = source.read(found.commit_at);
        if (!found.there || again == found.commit) break;
        found.commit = again;
    }
    if (t.body() == kInline) {
        found.version = found.commit >> 1;
    } else if (found.there) {
        u64 record = record_of(t, found.commit);
        found.value_at = t.value_at(record);
        found.version = peek(t, t.version_at(record));
    }
    return found;
}

// What an overflow has for a key.
WK_DEVICE Found look_in_overflow_alone(const Table& t, const Run& run, u64 wanted, u64 hash, const Key& key) {
    for (u32 i = 0; i < kOverflowReach * t.slots(); i++) {
        Found found = look_alone(t, overflow_slot(t, run, hash, i), wanted, hash, key);
        if (found.there) return found;
    }
    return nothing();
}

// What a key has: the places of find.h, in their order.
WK_DEVICE Found find_alone(const Table& t, u64 hash, const Key& key) {
    i32 special = t.special(hash);
    if (special >= 0) return look_alone(t, Slot{t.specials, (u32)special}, kSpecial, hash, key);
    u64 wanted = t.fingerprint(hash);
    for (u32 i = 1; i < t.overflows; i++) {
        Found found = look_in_overflow_alone(t, t.overflow[i], wanted, hash, key);
        if (found.there) return found;
    }
    for (u32 i = 0; i < t.drained_count * kWarp; i++) {
        Found found = look_alone(t, level_slot(t, t.drained_first + i / kWarp, hash, i % kWarp), wanted, hash, key);
        if (found.there) return found;
    }
    for (u32 i = 0; i < kWarp; i++) {
        Found found = look_alone(t, open_slot(t, hash, i), wanted, hash, key);
        if (found.there) return found;
    }
    if (!t.look_in_overflow) return nothing();
    return look_in_overflow_alone(t, t.overflow[0], wanted, hash, key);
}

}  // namespace gphash

WK_KERNEL(gphash_paper_get_alone, gphash::GetParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index >= p.count) return;
    const Table& t = p.table;
    Key key{p.keys + index * t.key_words(), t.key_len()};
    Found found = find_alone(t, key.hash(t.seed), key);
    if (found.there && p.values) {
        u64* to = p.values + index * t.value_words();
        if (t.body() == kInline) {
            store(to, found.word);
        } else {
            for (u32 i = 0; i < t.value_words(); i++) store(to + i, load(t.at(found.value_at) + i));
        }
    }
    store(p.statuses + index, (u8)(found.there ? kOk : kNotFound));
    if (p.versions) store(p.versions + index, found.version);
}
