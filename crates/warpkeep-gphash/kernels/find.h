// Finding: a warp looks at all slots of a key at once.
#pragma once
#include "table.h"

namespace gphash {

// Where the words of a slot are read: in the image.
struct InImage {
    const Table& t;

    WK_DEVICE u64* at(u64 offset) const { return t.at(offset); }
    WK_DEVICE u64 read(u64 offset) const { return load<Scope::System, Order::Acquire>(at(offset)); }
};

// What a key has. The same in all lanes of the warp.
struct Found {
    bool there;
    bool in_overflow;
    // Where the state of its slot lies, and the word that an update replaces; what that is now.
    u64 state_at;
    u64 commit_at;
    u64 commit;
    u64 version;
    // Where the value lies; its bytes are there while nobody replaces it, and for readers of this batch beyond.
    u64 value_at;
    // The value, if it is in the slot; or how many bytes it has, if that differs.
    u64 word;
};

constexpr WK_DEVICE Found nothing() { return Found{false, false, 0, 0, 0, 0, 0, 0}; }

// The record of an item, given the word that commits it.
WK_DEVICE u64 record_of(const Table& t, u64 commit) {
    return t.body() == kPacked ? (commit & kReferenceMask) << 3 : commit;
}

// A word of a record.
//
// Records are read with ordinary loads, which may share a fetch over the link: thousands of warps want a hot record at once, and loads
// of system scope would wait for each other. They may be ordinary because a record does not change while it can be reached:
//  - Whoever wrote it stored the word that leads to it afterwards: the CPU with release, a kernel behind a fence of system scope. Here that word
//    was read with acquire at system scope. So by the memory model of PTX (and of C++) the loads see the whole record.
//  - Its block is used again only when no kernel runs that could have come to it: whoever has one running has an epoch pinned. What
//    the next batch writes there happens after the end of this launch, and the next launch after that.
// The first cache is passed by: blocks share lines, so it could hold one from before the block was filled. The acquire drops it, too, but
// then it is of no use for records either.
WK_DEVICE u64 record_word(const Table& t, u64 at) { return load_l2(t.at(at)); }

// Whether the record has this key at an offset. Without an early end, so that the words come together.
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
    // What is behind the last byte does not count.
    if (len % 8) differ |= (record_word(t, at + 8 * i) ^ key.word(i)) << (64 - len % 8 * 8);
    return differ == 0;
}

// Records of any length: version, lengths of key and value in one word, the key in whole words, the value.
constexpr u64 kVariableHead = 16;

WK_DEVICE bool variable_has_key(const Table& t, u64 record, const Key& key) {
    if ((u32)record_word(t, record + 8) != key.len) return false;
    return record_has_key(t, record + kVariableHead, key);
}

// Whether the key in a slot is this one. Slots are used again beside a kernel that reads, so their words are read one by one.
WK_DEVICE bool same_key(const Table& t, const u64* stored, const Key& key) {
    for (u32 i = 0; i < t.key_words(); i++) {
        if (load<Scope::System, Order::Relaxed>(stored + i) != key.word(i)) return false;
    }
    return true;
}

// Whether a slot with this state has the item of the key.
template <class Source>
WK_DEVICE bool has_key(const Table& t, const Slot& slot, const Source& source, u64 state, u64 wanted, u64 hash, const Key& key) {
    if (t.body() != kPacked) {
        return state == wanted && (t.slot_key_words() == 0 || same_key(t, source.at(slot.key_at(t)), key));
    }
    bool fits = (state ^ hash << kReferenceBits) <= kReferenceMask && (state & kReferenceMask) != 0;
    if (!fits) return false;
    u64 record = record_of(t, state);
    return t.variable() ? variable_has_key(t, record, key) : record_has_key(t, t.tail_at(record), key);
}

// What the slots that the lanes hold have for a key; `wanted` is the state of its item where keys are in slots.
template <class Source>
WK_DEVICE Found look(const Table& t, const Slot& slot, const Source& source, u64 wanted, u64 hash, const Key& key) {
    Warp warp;
    u64 state = slot.is() ? source.read(slot.state_at()) : kEmpty;
    bool mine = slot.is() && state != kEmpty && has_key(t, slot, source, state, wanted, hash, key);
    u32 lanes = warp.ballot(mine);
    if (lanes == 0) return nothing();
    u32 who = ffs(lanes) - 1;
    Found found = nothing();
    if (lane() == who) {
        found.there = true;
        found.state_at = slot.state_at();
        found.commit_at = t.body() == kPacked ? found.state_at : slot.payload_at(t);
        found.commit = t.body() == kPacked ? state : source.read(found.commit_at);
        while (t.body() != kPacked) {
            // Believed only if state and commit word are the same afterwards: slots and values are used again at once, also by
            // another key, beside a kernel that only reads.
            if (t.body() == kInline) found.word = source.read(found.commit_at + 8 * (1 + (found.commit & 1)));
            found.there = source.read(found.state_at) == state;
            u64 again = source.read(found.commit_at);
            if (!found.there || again == found.commit) break;
            found.commit = again;
        }
        if (t.body() == kInline) {
            found.version = found.commit >> 1;
        } else if (found.there && t.variable()) {
            u64 record = record_of(t, found.commit);
            found.version = record_word(t, record);
            found.word = record_word(t, record + 8) >> 32;
            found.value_at = record + kVariableHead + 8 * key.count();
        } else if (found.there) {
            u64 record = record_of(t, found.commit);
            found.value_at = t.value_at(record);
            found.version = record_word(t, t.version_at(record));
        }
    }
    found.there = warp.shfl((u32)found.there, who) != 0;
    found.state_at = warp.shfl(found.state_at, who);
    found.commit_at = warp.shfl(found.commit_at, who);
    found.commit = warp.shfl(found.commit, who);
    found.version = warp.shfl(found.version, who);
    found.value_at = warp.shfl(found.value_at, who);
    found.word = warp.shfl(found.word, who);
    return found;
}

// What an overflow has for a key.
WK_DEVICE Found look_in_overflow(const Table& t, const Run& run, u64 wanted, u64 hash, const Key& key) {
    for (u32 first = 0; first < kOverflowReach * t.slots(); first += kWarp) {
        Found found = look(t, overflow_slot(t, run, hash, first + lane()), InImage{t}, wanted, hash, key);
        if (found.there) {
            found.in_overflow = true;
            return found;
        }
    }
    return nothing();
}

// What a key has. All lanes ask for the same key. Nobody moves items meanwhile. `in_open` looks in the levels that items are put into, given
// the state that the item has where keys are in slots.
template <class InOpen> WK_DEVICE Found find_by(const Table& t, u64 hash, const Key& key, InOpen in_open) {
    i32 special = t.special(hash);
    if (special >= 0) {
        Slot slot = lane() == 0 ? Slot{t.specials, (u32)special} : Slot{0, 0};
        return look(t, slot, InImage{t}, kSpecial, hash, key);
    }
    u64 wanted = t.fingerprint(hash);
    for (u32 i = 1; i < t.overflows; i++) {
        Found found = look_in_overflow(t, t.overflow[i], wanted, hash, key);
        if (found.there) return found;
    }
    for (u32 i = 0; i < t.drained_count; i++) {
        Found found = look(t, level_slot(t, t.drained_first + i, hash, lane()), InImage{t}, wanted, hash, key);
        if (found.there) return found;
    }
    Found found = in_open(wanted);
    if (found.there || !t.look_in_overflow) return found;
    return look_in_overflow(t, t.overflow[0], wanted, hash, key);
}

// The same, in the image.
WK_DEVICE Found find(const Table& t, u64 hash, const Key& key) {
    return find_by(t, hash, key, [&](u64 wanted) { return look(t, open_slot(t, hash, lane()), InImage{t}, wanted, hash, key); });
}

}  // namespace gphash
