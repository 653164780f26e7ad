// A hash map from 64-bit keys to 64-bit values, and a hash set: what kernels need to use one. The host's side, which grows it, is
// warpkeep_containers::HashMap and HashSet.
//
//     struct Params { wk::HashMapRef map; const wk::u64* words; wk::u64 count; };
//     WK_KERNEL(count_words, Params) {
//         wk::u64 i = wk::global_index();
//         if (i < p.count) p.map.upsert(wk::MapOp::Add, wk::load(p.words + i), 1);
//     }
//
// There are 2^k buckets of 64 bytes: four slots of a map, eight of a set. A key has two buckets and is in one slot of one of them. The key goes through a bijection of 64 bits first; the
// low k bits of the result number its first bucket, so the slot does not store them and has k bits for flags: every key can be stored, and an empty slot
// is zero. The second bucket differs from the first by bits that the slot does store, so each follows from the other and the slot.
//
// What may run at the same time, in one kernel or in several: find and contains with each other and with everything here; insert and upsert with each
// other; erase with erase. Not erase with insert or upsert: a slot that becomes free in between could let a key in twice. And nothing here while a call of
// the host changes the map. A reference is good until the next such call, because that may double the buckets.
#pragma once
#include "warpkeep/fault_point.h"
#include "warpkeep/hash.h"

namespace wk {

// Bytes of a bucket.
constexpr u32 kMapBucket = 64;
// A map has 2^k buckets, and k is one of these and of the numbers between.
constexpr u32 kMapLeastBits = 6;
constexpr u32 kMapMostBits = 31;

// Flags in the first word of a slot: it holds a key; that key is in its second bucket; it holds none and is kept for one that is on its way.
constexpr u64 kMapHeld = 1;
constexpr u64 kMapSecond = 2;
constexpr u64 kMapReserved = 4;

// What came of an operation.
enum class MapStatus : u8 {
    // The key is new.
    Inserted = 1,
    // The key was there, and its value is another now, or could be.
    Updated = 2,
    // The key was there.
    Found = 3,
    // The key was not there.
    Absent = 4,
    // The key was there, and is gone.
    Erased = 5,
    // The key was not there, and there is no slot for it.
    Full = 6,
};

enum class MapOp : u8 {
    // Keeps the value of a key that is there.
    Insert = 0,
    // These change it: to the new value, the sum, the smaller and the larger of both.
    Put = 1,
    Add = 2,
    Min = 3,
    Max = 4,
    Find = 5,
    Contains = 6,
    Erase = 7,
};

// Whether an operation gives a value to a key that has none.
WK_DEVICE bool inserts(MapOp op) { return (u8)op <= (u8)MapOp::Max; }

// The value of a key that had `old`.
WK_DEVICE u64 updated(MapOp op, u64 old, u64 operand) {
    switch (op) {
        case MapOp::Put: return operand;
        case MapOp::Add: return old + operand;
        case MapOp::Min: return operand < old ? operand : old;
        case MapOp::Max: return operand > old ? operand : old;
        default: return old;
    }
}

WK_DEVICE constexpr u64 odd_inverse(u64 odd) {
    // Each step doubles the number of low bits that are right; five are at first.
    u64 inverse = 3 * odd ^ 2;
    for (u32 i = 0; i < 4; i++) inverse *= 2 - odd * inverse;
    return inverse;
}

// The key that has this hash: mix64 is a bijection for each seed.
WK_DEVICE u64 unmix64(u64 seed, u64 hash) {
    constexpr u64 back3 = odd_inverse(kC3), back7 = odd_inverse(kC7), back11 = odd_inverse(kC11);
    u64 x = hash ^ hash >> 29 ^ hash >> 58;
    x *= back11;
    x = (x ^ x >> 32) * back7;
    x = (x ^ x >> 29 ^ x >> 58) ^ rotl(seed, 32);
    x *= back3;
    return x ^ x >> 32 ^ seed ^ kC13;
}

// Slots of a map, and of a set: what they have of the key, and the value.
WK_DEVICE u64 key_part(const U128& slot) { return slot.lo; }
WK_DEVICE u64 key_part(u64 slot) { return slot; }
WK_DEVICE u64 value_part(const U128& slot) { return slot.hi; }
WK_DEVICE u64 value_part(u64) { return 0; }
template <class Slot> WK_DEVICE Slot make_slot(u64 key, u64 value) {
    if constexpr (sizeof(Slot) == 16) return Slot{key, value};
    else return key;
}
WK_DEVICE bool same(const U128& a, const U128& b) { return a.lo == b.lo && a.hi == b.hi; }
WK_DEVICE bool same(u64 a, u64 b) { return a == b; }

// A map or a set in device memory: plain data, to be a part of a kernel's parameters.
template <class Slot> struct HashRef {
    static constexpr u32 kSlots = kMapBucket / sizeof(Slot);

    // Slots of a bucket follow each other, and buckets do.
    Slot* slots;
    // The number of keys, and words of the host's.
    u64* control;
    u64 seed;
    // The number of buckets, less one.
    u64 mask;

    WK_DEVICE u64 hash(u64 key) const { return mix64(seed, key); }
    WK_DEVICE u64 key(u64 hash) const { return unmix64(seed, hash); }
    WK_DEVICE u64 first(u64 hash) const { return hash & mask; }
    // The other bucket of a key that has this one. Odd, so that it is another.
    WK_DEVICE u64 partner(u64 hash, u64 bucket) const { return bucket ^ ((hash >> 32 | 1) & mask); }
    WK_DEVICE Slot* bucket(u64 number) const { return slots + number * kSlots; }

    // What the slot of a key has.
    WK_DEVICE Slot word(u64 hash, bool second, u64 value) const {
        return make_slot<Slot>((hash & ~mask) | kMapHeld | (second ? kMapSecond : 0), value);
    }
    // The hash of the key in a slot of this bucket.
    WK_DEVICE u64 hash_in(const Slot& word, u64 bucket) const {
        u64 upper = key_part(word) & ~mask;
        return upper | (key_part(word) & kMapSecond ? partner(upper, bucket) : bucket);
    }

    // A bucket as it was read: all slots are under way at once.
    struct Bucket {
        Slot* at;
        Slot slots[kSlots];

        WK_DEVICE explicit Bucket(Slot* from) : at(from) {
            for (u32 i = 0; i < kSlots; i++) slots[i] = load<Scope::Device, Order::Relaxed>(from + i);
        }

        // Writes to a slot that was empty, if one still is; gives it.
        WK_DEVICE Slot* take(const Slot& word) const {
            for (u32 i = 0; i < kSlots; i++) {
                if (same(slots[i], Slot{}) && put(at + i, word)) return at + i;
            }
            return nullptr;
        }

        WK_DEVICE static bool put(Slot* slot, const Slot& word) {
            if (WK_FAULT_POINT("hash_map.claim")) {
                store<Scope::Device, Order::Relaxed>(slot, word);
                return true;
            }
            return same(cas<Scope::Device, Order::Relaxed>(slot, Slot{}, word), Slot{});
        }
    };

    // A key's slot as it was read; no slot if the key is in none.
    struct Place {
        Slot* at;
        Slot word;
    };

    WK_DEVICE Place locate(u64 hash) const {
        u64 number = first(hash);
        for (u32 second = 0; second < 2; second++, number = partner(hash, number)) {
            u64 wanted = key_part(word(hash, second, 0));
            Bucket there(bucket(number));
            // No number of a slot that is not a constant, or the bucket would go to memory.
            Place place{nullptr, Slot{}};
            for (u32 i = 0; i < kSlots; i++) {
                if (key_part(there.slots[i]) == wanted) place = Place{there.at + i, there.slots[i]};
            }
            if (place.at) return place;
        }
        return Place{nullptr, Slot{}};
    }

    // Takes an empty slot for a key that has none, unless both buckets are full. Of the threads that do this at the same time none has the same key.
    WK_DEVICE bool claim(u64 hash, u64 value) const {
        u64 number = first(hash);
        for (u32 second = 0; second < 2; second++, number = partner(hash, number)) {
            if (Bucket(bucket(number)).take(word(hash, second, value))) return true;
        }
        return false;
    }

    WK_DEVICE bool contains(u64 key) const { return locate(hash(key)).at != nullptr; }

    // The value of a key, if it is there.
    WK_DEVICE bool find(u64 key, u64& value) const {
        Place place = locate(hash(key));
        if (!place.at) return false;
        value = value_part(place.word);
        return true;
    }

    // Adds a key, or keeps the value that it has; `before` is what it had. Full if there is no slot: the host makes room.
    WK_DEVICE MapStatus insert(u64 key, u64 value = 0, u64* before = nullptr) const {
        return upsert(MapOp::Insert, key, value, before);
    }

    // The same with any operation that inserts. Threads may give the same key.
    WK_DEVICE MapStatus upsert(MapOp op, u64 key, u64 operand, u64* before = nullptr) const {
        u64 hashed = hash(key);
        for (;;) {
            Place place = locate(hashed);
            while (place.at) {
                if (before) *before = value_part(place.word);
                Slot next = make_slot<Slot>(key_part(place.word), updated(op, value_part(place.word), operand));
                if (same(next, place.word)) return op == MapOp::Insert ? MapStatus::Found : MapStatus::Updated;
                Slot was = cas<Scope::Device, Order::Relaxed>(place.at, place.word, next);
                if (same(was, place.word)) return MapStatus::Updated;
                place.word = was;
            }
            switch (claim_shared(hashed, operand)) {
                case Claim::Taken: fetch_add(control, 1); return MapStatus::Inserted;
                case Claim::Full: return MapStatus::Full;
                // Another thread took the slot, perhaps for this key.
                case Claim::Lost: break;
            }
        }
    }

    // Removes a key; `before` is the value that it had.
    WK_DEVICE MapStatus erase(u64 key, u64* before = nullptr) const {
        Place place = locate(hash(key));
        while (place.at) {
            Slot was = cas<Scope::Device, Order::Relaxed>(place.at, place.word, Slot{});
            if (same(was, place.word)) {
                if (before) *before = value_part(was);
                fetch_add(control, ~0ull);
                return MapStatus::Erased;
            }
            // The value changed, or another thread was first.
            if (key_part(was) != key_part(place.word)) break;
            place.word = was;
        }
        return MapStatus::Absent;
    }

    enum class Claim { Taken, Lost, Full };

    // Takes the first empty slot. While no slot becomes empty, all threads that have the same key come to the same slot, so one of them gets it and the
    // others lose it.
    WK_DEVICE Claim claim_shared(u64 hash, u64 value) const {
        u64 number = first(hash);
        for (u32 second = 0; second < 2; second++, number = partner(hash, number)) {
            Slot* at = bucket(number);
            for (u32 i = 0; i < kSlots; i++) {
                Slot empty{}, there = load<Scope::Device, Order::Relaxed>(at + i);
                if (same(there, empty)) {
                    Slot wanted = word(hash, second, value);
                    if (WK_FAULT_POINT("hash_map.shared_claim")) {
                        store<Scope::Device, Order::Relaxed>(at + i, wanted);
                        return Claim::Taken;
                    }
                    Slot was = cas<Scope::Device, Order::Relaxed>(at + i, empty, wanted);
                    return same(was, empty) ? Claim::Taken : Claim::Lost;
                }
                if (key_part(there) == key_part(word(hash, second, 0))) return Claim::Lost;
            }
        }
        return Claim::Full;
    }
};

using HashMapRef = HashRef<U128>;
using HashSetRef = HashRef<u64>;

}  // namespace wk
