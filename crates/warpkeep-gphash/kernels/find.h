// Finding: a warp looks at all slots of a key at once.
#pragma once
#include "table.h"

namespace gphash {

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
    // The value, if it is in the slot.
    u64 word;
};

constexpr WK_DEVICE Found nothing() { return Found{false, false, 0, 0, 0, 0, 0, 0}; }

// The record of an item, given the word that commits it.
WK_DEVICE u64 record_of(const Table& t, u64 commit) {
    return t.body() == kPacked ? (commit & kReferenceMask) << 3 : commit;
}

// Whether the key stored from an offset on is this one.
WK_DEVICE bool same_key(const Table& t, u64 stored, const Key& key) {
    for (u32 i = 0; i < t.key_words(); i++) {
        if (peek(t, stored + 8 * i) != key.word(i)) return false;
    }
    return true;
}

// Whether a slot with this state has the item of the key.
WK_DEVICE bool has_key(const Table& t, const Slot& slot, u64 state, u64 wanted, u64 hash, const Key& key) {
    if (t.body() != kPacked) return state == wanted && (t.slot_key_words() == 0 || same_key(t, slot.key_at(t), key));
    bool fits = (state ^ hash << kReferenceBits) <= kReferenceMask && (state & kReferenceMask) != 0;
    return fits && same_key(t, record_of(t, state) + 8 * t.value_words(), key);
}

// What the slots that the lanes hold have for a key; `wanted` is the state of its item where keys are in slots.
WK_DEVICE Found look(const Table& t, const Slot& slot, u64 wanted, u64 hash, const Key& key) {
    Warp warp;
    u64 state = slot.is() ? load<Scope::System, Order::Acquire>(t.at(slot.state_at())) : kEmpty;
    bool mine = slot.is() && state != kEmpty && has_key(t, slot, state, wanted, hash, key);
    u32 lanes = warp.ballot(mine);
    if (lanes == 0) return nothing();
    u32 who = ffs(lanes) - 1;
    Found found = nothing();
    if (lane() == who) {
        found.there = true;
        found.state_at = slot.state_at();
        found.commit_at = t.body() == kPacked ? found.state_at : slot.payload_at(t);
        found.commit = t.body() == kPacked ? state : load<Scope::System, Order::Acquire>(t.at(found.commit_at));
        while (t.body() != kPacked) {
            // Believed only if state and commit word are the same afterwards: slots and values are used again at once, also by
            // another key, beside a kernel that only reads.
            if (t.body() == kInline) {
                found.word = load<Scope::System, Order::Acquire>(t.at(found.commit_at + 8 * (1 + (found.commit & 1))));
            }
            found.there = load<Scope::System, Order::Acquire>(t.at(found.state_at)) == state;
            u64 again = load<Scope::System, Order::Acquire>(t.at(found.commit_at));
            if (!found.there || again == found.commit) break;
            found.commit = again;
        }
        if (t.body() == kInline) {
            found.version = found.commit >> 1;
        } else if (found.there) {
            found.value_at = record_of(t, found.commit);
            found.version = peek(t, found.value_at + 8 * (t.value_words() + t.record_key_words()));
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
        Found found = look(t, overflow_slot(t, run, hash, first + lane()), wanted, hash, key);
        if (found.there) {
            found.in_overflow = true;
            return found;
        }
    }
    return nothing();
}

// What a key has. All lanes ask for the same key. Nobody moves items meanwhile.
WK_DEVICE Found find(const Table& t, u64 hash, const Key& key) {
    i32 special = t.special(hash);
    if (special >= 0) {
        Slot slot = lane() == 0 ? Slot{t.specials, (u32)special} : Slot{0, 0};
        return look(t, slot, kSpecial, hash, key);
    }
    u64 wanted = t.fingerprint(hash);
    for (u32 i = 1; i < t.overflows; i++) {
        Found found = look_in_overflow(t, t.overflow[i], wanted, hash, key);
        if (found.there) return found;
    }
    for (u32 i = 0; i < t.drained_count; i++) {
        Found found = look(t, level_slot(t, t.drained_first + i, hash, lane()), wanted, hash, key);
        if (found.there) return found;
    }
    Found found = look(t, open_slot(t, hash, lane()), wanted, hash, key);
    if (found.there || !t.look_in_overflow) return found;
    return look_in_overflow(t, t.overflow[0], wanted, hash, key);
}

}  // namespace gphash
