// Find: the item of a key, by a warp that reads all candidate slots at once.
//
// A key can be in 32 slots of the open levels, so each lane reads one and a ballot selects the match: one round of
// loads over the link instead of a chain. Runs that are being drained and the overflow are searched in the same way.
//
// Invariant: items do not move while a kernel searches. Kernels hold the relocation lock for reading.
#pragma once
#include "table.h"

namespace gphash {

// Reads slot words in the image.
struct ImageReader {
    const Table& t;

    WK_DEVICE u64* at(u64 offset) const { return t.at(offset); }
    WK_DEVICE u64 read(u64 offset) const { return load<Scope::System, Order::Acquire>(at(offset)); }
};

// The item of a key. All lanes of a warp hold the same values.
struct Item {
    bool exists;
    bool in_overflow;
    // Offset of the slot's state; offset of the commit word, which an update replaces; the commit word as it was read.
    u64 state_at;
    u64 commit_at;
    u64 commit;
    u64 version;
    // Offset of the value. Its bytes stay valid until the end of the launch, even if another writer replaces the item.
    u64 value_at;
    // The value, if the slot holds it; the length of the value, if records have variable lengths.
    u64 word;
};

constexpr WK_DEVICE Item no_item() { return Item{false, false, 0, 0, 0, 0, 0, 0}; }

// The record of an item, given its commit word.
WK_DEVICE u64 record_of(const Table& t, u64 commit) {
    return t.body() == kPacked ? (commit & kReferenceMask) << 3 : commit;
}

// A word of a record.
//
// Records are read with ordinary loads, which can share a fetch over the link: thousands of warps may read a hot record
// at once, and loads of system scope would be serialised. Ordinary loads are safe because a record does not change
// while it can be reached:
//   - Its writer stored the record first and the word that refers to it afterwards: the CPU with release, a kernel
//     behind a fence of system scope. The reader loaded that word with acquire at system scope. By the memory models of
//     PTX and C++ its loads see the whole record.
//   - Its block is reused only when no running kernel can have reached it, because a running kernel keeps its epoch
//     pinned. The next batch writes there after the end of this launch, and kernels that read it start after that.
// The loads bypass L1. Blocks share lines, so L1 could hold a line from before the block was filled. The acquire
// invalidates L1 as well, so L1 would not help records anyway.
WK_DEVICE u64 record_word(const Table& t, u64 at) { return load_l2(t.at(at)); }

// Whether the key at an offset in a record is this one. There is no early exit, so that all words are in flight
// together.
WK_DEVICE bool record_has_key(const Table& t, u64 at, const Key& key) {
    u64 differ = 0;
    u32 i = 0, len = t.variable() ? key.len : t.key_len();
    if (at % 16 == 0) {
        for (; i + 2 <= len / 8; i += 2) {
            U128 two = load_l2((const U128*)t.at(at + 8 * i));
            differ |= (two.lo ^ key.word(i)) | (two.hi ^ key.word(i + 1));
        }
    }
    for (; i < len / 8; i++) differ |= record_word(t, at + 8 * i) ^ key.word(i);
    // Bytes behind the end of the key are ignored.
    if (len % 8) differ |= (record_word(t, at + 8 * i) ^ key.word(i)) << (64 - len % 8 * 8);
    return differ == 0;
}

// Records of variable length: version, the lengths of key and value in one word, the key in whole words, the value.
constexpr u64 kVariableHead = 16;

WK_DEVICE bool variable_has_key(const Table& t, u64 record, const Key& key) {
    if ((u32)record_word(t, record + 8) != key.len) return false;
    return record_has_key(t, record + kVariableHead, key);
}

// Whether the key stored in a slot is this one. Writers reuse slots while a kernel reads, so each word is loaded on its
// own.
WK_DEVICE bool same_key(const Table& t, const u64* stored, const Key& key) {
    for (u32 i = 0; i < t.key_words(); i++) {
        if (load<Scope::System, Order::Relaxed>(stored + i) != key.word(i)) return false;
    }
    return true;
}

// Whether a slot with this state holds the key.
template <class Source>
WK_DEVICE bool has_key(const Table& t, const Slot& slot, const Source& source, u64 state, u64 expected, u64 hash,
                       const Key& key) {
    if (t.body() != kPacked) {
        return state == expected && (t.slot_key_words() == 0 || same_key(t, source.at(slot.key_at(t)), key));
    }
    bool fits = (state ^ hash << kReferenceBits) <= kReferenceMask && (state & kReferenceMask) != 0;
    if (!fits) return false;
    u64 record = record_of(t, state);
    return t.variable() ? variable_has_key(t, record, key) : record_has_key(t, t.tail_at(record), key);
}

// Finds the key in the slots that the lanes give, one each. `expected` is the state of its item, where slots hold keys.
template <class Source>
WK_DEVICE Item find_in_slots(const Table& t, const Slot& slot, const Source& source, u64 expected, u64 hash,
                             const Key& key) {
    Warp warp;
    u64 state = slot.is_valid() ? source.read(slot.state_at()) : kEmpty;
    bool matches = slot.is_valid() && state != kEmpty && has_key(t, slot, source, state, expected, hash, key);
    u32 lanes = warp.ballot(matches);
    if (lanes == 0) return no_item();
    u32 owner = ffs(lanes) - 1;
    Item item = no_item();
    if (lane() == owner) {
        item.exists = true;
        item.state_at = slot.state_at();
        item.commit_at = t.body() == kPacked ? item.state_at : slot.payload_at(t);
        item.commit = t.body() == kPacked ? state : source.read(item.commit_at);
        while (t.body() != kPacked) {
            // Valid only if state and commit word are unchanged afterwards: writers reuse slots and values at once,
            // also for other keys, while a kernel reads.
            if (t.body() == kInline) item.word = source.read(item.commit_at + 8 * (1 + (item.commit & 1)));
            item.exists = source.read(item.state_at) == state;
            u64 again = source.read(item.commit_at);
            if (!item.exists || again == item.commit) break;
            item.commit = again;
        }
        if (t.body() == kInline) {
            item.version = item.commit >> 1;
        } else if (item.exists && t.variable()) {
            u64 record = record_of(t, item.commit);
            item.version = record_word(t, record);
            item.word = record_word(t, record + 8) >> 32;
            item.value_at = record + kVariableHead + 8 * key.count();
        } else if (item.exists) {
            u64 record = record_of(t, item.commit);
            item.value_at = t.value_at(record);
            item.version = record_word(t, t.version_at(record));
        }
    }
    item.exists = warp.shfl((u32)item.exists, owner) != 0;
    item.state_at = warp.shfl(item.state_at, owner);
    item.commit_at = warp.shfl(item.commit_at, owner);
    item.commit = warp.shfl(item.commit, owner);
    item.version = warp.shfl(item.version, owner);
    item.value_at = warp.shfl(item.value_at, owner);
    item.word = warp.shfl(item.word, owner);
    return item;
}

// Finds a key in an overflow.
WK_DEVICE Item find_in_overflow(const Table& t, const Run& run, u64 expected, u64 hash, const Key& key) {
    for (u32 first = 0; first < kOverflowReach * t.slots(); first += kWarp) {
        Item item = find_in_slots(t, overflow_slot(t, run, hash, first + lane()), ImageReader{t}, expected, hash, key);
        if (item.exists) {
            item.in_overflow = true;
            return item;
        }
    }
    return no_item();
}

// Finds a key. All lanes give the same one. Runs that are being drained come first, then the open levels, then the
// overflow in use. `in_open` searches the open levels, given the state of the item where slots hold keys.
template <class InOpen> WK_DEVICE Item find_by(const Table& t, u64 hash, const Key& key, InOpen in_open) {
    i32 special_slot = t.special_slot(hash);
    if (special_slot >= 0) {
        Slot slot = lane() == 0 ? Slot{t.special_slots, (u32)special_slot} : Slot{0, 0};
        return find_in_slots(t, slot, ImageReader{t}, kSpecial, hash, key);
    }
    u64 expected = t.fingerprint(hash);
    for (u32 i = 1; i < t.overflows; i++) {
        Item item = find_in_overflow(t, t.overflow[i], expected, hash, key);
        if (item.exists) return item;
    }
    for (u32 i = 0; i < t.drained_count; i++) {
        Item item = find_in_slots(t, level_slot(t, t.drained_first + i, hash, lane()), ImageReader{t}, expected, hash,
                                  key);
        if (item.exists) return item;
    }
    Item item = in_open(expected);
    if (item.exists || !t.overflow_in_use) return item;
    return find_in_overflow(t, t.overflow[0], expected, hash, key);
}

// Finds a key in the image.
WK_DEVICE Item find(const Table& t, u64 hash, const Key& key) {
    return find_by(t, hash, key, [&](u64 expected) {
        return find_in_slots(t, open_slot(t, hash, lane()), ImageReader{t}, expected, hash, key);
    });
}

}  // namespace gphash
