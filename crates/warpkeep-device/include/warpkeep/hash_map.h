// Hash maps and hash sets: what kernels need to use one. The host's side, which grows it, is warpkeep_containers::HashMap and HashSet.
//
//     struct Params { wk::HashRef<wk::u64, wk::u32> map; const wk::u64* words; wk::u64 count; };
//     WK_KERNEL(count_words, Params) {
//         wk::u64 i = wk::global_index();
//         if (i < p.count) p.map.upsert(wk::MapOp::Add, wk::load(p.words + i), 1);
//     }
//
// Keys are u32 or u64; values are u32, u64, U128 or KeyOnly, which makes a set. Values of 16 bytes are no numbers: Add, Min and Max of them are answered
// as Find.
//
// There are 2^k buckets with 64 bytes of slots. A key has two buckets and is in one slot of one of them. The key goes through a bijection of its bits first;
// the low k bits of the result number its first bucket, so the slot does not store them and has k bits for flags: every key can be stored, and an empty
// slot is zero. The bits that the slot stores and the number of either bucket give the other bucket.
//
// | key / value bytes | 4/0 | 8/0 | 4/4 | 8/8, 8/4, 4/8 | 4/16 | 8/16 |
// | --- | --- | --- | --- | --- | --- | --- |
// | slots of a bucket | 16 | 8 | 8 | 4 | 16 | 8 |
// | bytes of a slot | 4 | 8 | 8 | 16 | 4, and 16 apart | 8, and 16 apart |
//
// A slot is read and written in one access. Values of 16 bytes have an array of their own, with an element for each slot: the value is written first, then
// the slot; who reads both reads the slot again, because it could be another key's by then.
//
// What may run at the same time, in one kernel or in several: find and contains with each other and with everything here; insert and upsert with each
// other; erase with erase. Not erase with insert or upsert: a slot that becomes free in between could let a key in twice. And nothing here while a call of
// the host changes the map. A reference is good until the next such call, because that may double the buckets.
//
// With values of 16 bytes there are two limits more. First, a find that runs beside kernels which erase and insert one after the other must not run beside two
// of each: if its key is erased, its slot given to another key, that one erased and the first key inserted there again, all between the two times that the
// find reads the slot, it gives the other key's value. Second, a call of upsert that puts such a value and asks for the one before needs a GPU of compute
// capability 9.0 or later, which exchanges 16 bytes; for older ones it does not compile. All other calls of such maps compile for GPUs from 7.0 on.
#pragma once
#include "warpkeep/append.h"
#include "warpkeep/fault_point.h"
#include "warpkeep/hash.h"

namespace wk {

// Bytes of the slots of a bucket.
constexpr u32 kMapBucket = 64;
// A map has 2^k buckets, and k is at least this.
constexpr u32 kMapLeastBits = 6;

// Flags in a slot: it holds a key; that key is in its second bucket; it holds none and is kept for one that is on its way.
constexpr u32 kMapHeld = 1;
constexpr u32 kMapSecond = 2;
constexpr u32 kMapReserved = 4;

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
// Whether it computes with values.
WK_DEVICE bool computes(MapOp op) { return op == MapOp::Add || op == MapOp::Min || op == MapOp::Max; }

// The value of a key that had `old`.
template <class T> WK_DEVICE T updated(MapOp op, const T& old, const T& operand) {
    if constexpr (sizeof(T) == 16) {
        return op == MapOp::Put ? operand : old;
    } else {
        switch (op) {
            case MapOp::Put: return operand;
            case MapOp::Add: return old + operand;
            case MapOp::Min: return operand < old ? operand : old;
            case MapOp::Max: return operand > old ? operand : old;
            default: return old;
        }
    }
}

template <class Word> WK_DEVICE constexpr Word odd_inverse(Word odd) {
    // Each step doubles the number of low bits that are right; five are at first.
    Word inverse = 3 * odd ^ 2;
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

// The same for keys of 32 bits.
WK_DEVICE u32 mix32(u64 seed, u32 key) {
    u32 x = key ^ (u32)seed ^ (u32)kC13;
    x = (x ^ x >> 16) * (u32)kC3;
    x ^= (u32)(seed >> 32);
    x = (x ^ x >> 15) * (u32)kC7;
    x = (x ^ x >> 16) * (u32)kC11;
    return x ^ x >> 15;
}
WK_DEVICE u32 unmix32(u64 seed, u32 hash) {
    constexpr u32 back3 = odd_inverse((u32)kC3), back7 = odd_inverse((u32)kC7), back11 = odd_inverse((u32)kC11);
    u32 x = hash ^ hash >> 15 ^ hash >> 30;
    x *= back11;
    x = (x ^ x >> 16) * back7;
    x = (x ^ x >> 15 ^ x >> 30) ^ (u32)(seed >> 32);
    x *= back3;
    return x ^ x >> 16 ^ (u32)seed ^ (u32)kC13;
}

WK_DEVICE u32 reverse_bits(u32 x) {
#if WK_ON_GPU
    return __brev(x);
#else
    x = x >> 16 | x << 16;
    x = (x >> 8 & 0x00ff00ff) | (x & 0x00ff00ff) << 8;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    return (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
#endif
}

// How keys of a width are hashed, and the second bucket of a hash. That is the low k bits of another hash, of which bit i follows from bit i and the bits
// above it of the first one: so it can be undone with the bits that a slot stores, and gets one more bit when the number of buckets doubles. The lowest
// bits differ, so that the buckets do.
template <class Key> struct KeyHash;

template <> struct KeyHash<u64> {
    WK_DEVICE static u64 mix(u64 seed, u64 key) { return mix64(seed, key); }
    WK_DEVICE static u64 unmix(u64 seed, u64 hash) { return unmix64(seed, hash); }
    // Buckets have numbers of less than 32 bits.
    WK_DEVICE static u64 second(u64 hash, u64 mask) { return (hash ^ (hash >> 32 | 1)) & mask; }
    // The hash that has these upper bits and this second bucket.
    WK_DEVICE static u64 of_second(u64 upper, u64 bucket, u64 mask) { return upper | ((bucket ^ (upper >> 32 | 1)) & mask); }
};

template <> struct KeyHash<u32> {
    static constexpr u32 kSpread1 = (u32)kC5, kSpread2 = (u32)kC19, kTop = 1u << 31;

    WK_DEVICE static u32 mix(u64 seed, u32 key) { return mix32(seed, key); }
    WK_DEVICE static u32 unmix(u64 seed, u32 hash) { return unmix32(seed, hash); }

    // A slot has few bits of a hash of 32 bits, so all that it has decide. With the order of the bits reversed, a product and a shift to the left have bits
    // that follow from those at their place and the less significant ones.
    WK_DEVICE static u32 spread(u32 x) {
        x *= kSpread1;
        return (x ^ x << 16) * kSpread2;
    }
    WK_DEVICE static u32 gather(u32 x) {
        constexpr u32 back1 = odd_inverse(kSpread1), back2 = odd_inverse(kSpread2);
        x *= back2;
        return (x ^ x << 16) * back1;
    }
    WK_DEVICE static u64 second(u32 hash, u64 mask) {
        u32 turned = reverse_bits(hash);
        return reverse_bits((spread(turned) & ~kTop) | (~turned & kTop)) & (u32)mask;
    }
    WK_DEVICE static u32 of_second(u32 upper, u64 bucket, u64 mask) {
        u32 known = reverse_bits(~(u32)mask);
        u32 spread_all = (spread(reverse_bits(upper)) & known) | reverse_bits((u32)bucket);
        return reverse_bits((gather(spread_all) & ~kTop) | (~spread_all & kTop));
    }
};

// Stands for the value type of a set, which has keys alone.
struct KeyOnly {};

template <bool First, class A, class B> struct PickType { using Type = A; };
template <class A, class B> struct PickType<false, A, B> { using Type = B; };

WK_DEVICE bool same(const U128& a, const U128& b) { return a.lo == b.lo && a.hi == b.hi; }
WK_DEVICE bool same(u64 a, u64 b) { return a == b; }
WK_DEVICE bool same(u32 a, u32 b) { return a == b; }

// What the slots of a map have.
template <class Key, class Value> struct MapLayout {
    static constexpr u32 kValueBytes = __is_empty(Value) ? 0 : sizeof(Value);
    static_assert(sizeof(Key) == 4 || sizeof(Key) == 8, "keys are u32 or u64");
    static_assert(kValueBytes == 0 || kValueBytes == 4 || kValueBytes == 8 || kValueBytes == 16, "values are u32, u64, U128 or KeyOnly");
    // Whether values have an array of their own; and whether they can be computed with.
    static constexpr bool kApart = kValueBytes == 16;
    static constexpr bool kNumbers = !kApart;
    static constexpr u32 kPairBytes = sizeof(Key) + (kApart ? 0 : kValueBytes);

    using Slot = typename PickType<(kPairBytes > 8), U128, typename PickType<(kPairBytes > 4), u64, u32>::Type>::Type;
    // A value in a register. That of a set is 0.
    using Held = typename PickType<kValueBytes == 0, u32, Value>::Type;

    // The key's part of a slot, and the value in it.
    WK_DEVICE static Key key_part(const Slot& slot) {
        if constexpr (sizeof(Slot) == 16) return (Key)slot.lo;
        else return (Key)slot;
    }
    WK_DEVICE static Held value_part(const Slot& slot) {
        if constexpr (kApart || kValueBytes == 0) return Held{};
        else if constexpr (sizeof(Slot) == 16) return (Held)slot.hi;
        else return (Held)(slot >> 32);
    }
    WK_DEVICE static Slot make(Key key, const Held& value) {
        if constexpr (kApart || kValueBytes == 0) return (Slot)key;
        else if constexpr (sizeof(Slot) == 16) return Slot{key, value};
        else return (Slot)key | (Slot)value << 32;
    }
    // Slot `i` of the sixteen bytes that it is in.
    WK_DEVICE static Slot in_part(const U128& part, u32 i) {
        if constexpr (sizeof(Slot) == 16) return part;
        else if constexpr (sizeof(Slot) == 8) return i ? part.hi : part.lo;
        else return (u32)((i & 2 ? part.hi : part.lo) >> 32 * (i & 1));
    }
};

// A map or a set in device memory: plain data, to be a part of a kernel's parameters.
template <class Key, class Value = KeyOnly> struct HashRef {
    using Layout = MapLayout<Key, Value>;
    using Slot = typename Layout::Slot;
    using Held = typename Layout::Held;
    using Hashing = KeyHash<Key>;
    static constexpr u32 kSlots = kMapBucket / sizeof(Slot);
    static constexpr u32 kPartSlots = 16 / sizeof(Slot);
    static constexpr bool kApart = Layout::kApart;
    // A map has 2^k buckets, and k is at most this. That many have a slot for every key of 32 bits.
    static constexpr u32 kMostBits = sizeof(Key) == 8 ? 31 : kSlots == 16 ? 28 : kSlots == 8 ? 29 : 30;
    // Slots with a value apart are published and taken over; the others are whole in themselves.
    static constexpr Order kTaking = kApart ? Order::AcqRel : Order::Relaxed;
    static constexpr Order kGiving = kApart ? Order::Release : Order::Relaxed;

    // Slots of a bucket follow each other, and buckets do.
    Slot* slots;
    // A value for each slot, if values are apart.
    Held* values;
    // The number of keys, a SpreadCount, and words of the host's behind it.
    u64* control;
    u64 seed;
    // The number of buckets, less one.
    u64 mask;

    WK_DEVICE SpreadCount length() const { return SpreadCount{control}; }

    WK_DEVICE Key hash(Key key) const { return Hashing::mix(seed, key); }
    WK_DEVICE Key key(Key hash) const { return Hashing::unmix(seed, hash); }
    WK_DEVICE u64 first(Key hash) const { return hash & mask; }
    WK_DEVICE u64 bucket_of(Key hash, bool second) const { return second ? Hashing::second(hash, mask) : first(hash); }
    WK_DEVICE Slot* bucket(u64 number) const { return slots + number * kSlots; }

    // The key's part of its slot.
    WK_DEVICE Key word(Key hash, bool second) const { return (Key)((hash & ~mask) | kMapHeld | (second ? kMapSecond : 0)); }
    // The hash of the key in a slot of this bucket, and the other bucket of the key.
    WK_DEVICE Key hash_in(Key word, u64 bucket) const {
        Key upper = (Key)(word & ~mask);
        return word & kMapSecond ? Hashing::of_second(upper, bucket, mask) : (Key)(upper | bucket);
    }
    WK_DEVICE u64 other_bucket(Key word, u64 bucket) const { return bucket_of(hash_in(word, bucket), !(word & kMapSecond)); }

    // The value of a slot that no other thread changes.
    WK_DEVICE Held value_at(const Slot* at, const Slot& slot) const {
        if constexpr (kApart) return load(values + (at - slots));
        else return Layout::value_part(slot);
    }
    // Fills a slot that is this thread's.
    WK_DEVICE void publish(Slot* at, Key word, const Held& value) const {
        if constexpr (kApart) {
            if (WK_FAULT_POINT("hash_map.publish")) {
                store<Scope::Device, Order::Relaxed>(at, Layout::make(word, value));
                store<Scope::Device, Order::Relaxed>(values + (at - slots), value);
                return;
            }
            store<Scope::Device, Order::Release>(values + (at - slots), value);
        }
        store<Scope::Device, kGiving>(at, Layout::make(word, value));
    }

    // A bucket as it was read: all slots are under way at once.
    struct Bucket {
        Slot* at;
        Slot slots[kSlots];

        WK_DEVICE explicit Bucket(Slot* from) : at(from) {
            for (u32 i = 0; i < kMapBucket / 16; i++) {
                U128 part = load<Scope::Device, Order::Relaxed>((const U128*)from + i);
                for (u32 j = 0; j < kPartSlots; j++) slots[i * kPartSlots + j] = Layout::in_part(part, j);
            }
        }

        // Writes to a slot that was empty, if one still is; gives it.
        WK_DEVICE Slot* take(const Slot& slot) const {
            for (u32 i = 0; i < kSlots; i++) {
                if (same(slots[i], Slot{}) && put(at + i, slot)) return at + i;
            }
            return nullptr;
        }

        WK_DEVICE static bool put(Slot* at, const Slot& slot) {
            if (WK_FAULT_POINT("hash_map.claim")) {
                store<Scope::Device, Order::Relaxed>(at, slot);
                return true;
            }
            return same(cas<Scope::Device, kTaking>(at, Slot{}, slot), Slot{});
        }
    };

    // A key's slot as it was read; no slot if the key is in none.
    struct Place {
        Slot* at;
        Slot slot;
    };

    WK_DEVICE Place locate(Key hash) const {
        for (u32 second = 0; second < 2; second++) {
            Key wanted = word(hash, second);
            Bucket there(bucket(bucket_of(hash, second)));
            // No number of a slot that is not a constant, or the bucket would go to memory.
            Place place{nullptr, Slot{}};
            for (u32 i = 0; i < kSlots; i++) {
                if (Layout::key_part(there.slots[i]) == wanted) place = Place{there.at + i, there.slots[i]};
            }
            if (place.at) return place;
        }
        return Place{nullptr, Slot{}};
    }

    // Takes an empty slot for a key that has none, unless both buckets are full. Of the threads that do this at the same time none has the same key.
    WK_DEVICE bool claim(Key hash, const Held& value) const {
        for (u32 second = 0; second < 2; second++) {
            Key own = word(hash, second);
            Slot* at = Bucket(bucket(bucket_of(hash, second))).take(Layout::make(kApart ? (Key)kMapReserved : own, value));
            if (!at) continue;
            if constexpr (kApart) publish(at, own, value);
            return true;
        }
        return false;
    }

    WK_DEVICE bool contains(Key key) const { return locate(hash(key)).at != nullptr; }

    // The value of a key, if it is there.
    WK_DEVICE bool find(Key key, Held& value) const {
        for (;;) {
            Place place = locate(hash(key));
            if (!place.at) return false;
            if constexpr (!kApart) {
                value = Layout::value_part(place.slot);
                return true;
            } else {
                fence();
                value = load<Scope::Device, Order::Acquire>(values + (place.at - slots));
                // Another key could be there by now, and the value its own.
                if (same(load<Scope::Device, Order::Relaxed>(place.at), place.slot)) return true;
            }
        }
    }

    // Adds a key, or keeps the value that it has; `before` is what it had. Full if there is no slot: the host makes room.
    WK_DEVICE MapStatus insert(Key key, Held value = Held{}, Held* before = nullptr) const {
        return upsert(MapOp::Insert, key, value, before);
    }

    // The same with any operation that inserts. Threads may give the same key.
    WK_DEVICE MapStatus upsert(MapOp op, Key key, Held operand, Held* before = nullptr) const {
        if (!Layout::kNumbers && computes(op)) {
            Held found{};
            bool is_there = find(key, found);
            if (is_there && before) *before = found;
            return is_there ? MapStatus::Found : MapStatus::Absent;
        }
        Key hashed = hash(key);
        for (;;) {
            Place place = locate(hashed);
            if constexpr (kApart) {
                if (place.at) return upsert_apart(op, place, operand, before);
            }
            while (place.at) {
                if (before) *before = Layout::value_part(place.slot);
                Slot next = Layout::make(Layout::key_part(place.slot), updated(op, Layout::value_part(place.slot), operand));
                if (same(next, place.slot)) return op == MapOp::Insert ? MapStatus::Found : MapStatus::Updated;
                Slot was = cas<Scope::Device, Order::Relaxed>(place.at, place.slot, next);
                if (same(was, place.slot)) return MapStatus::Updated;
                place.slot = was;
            }
            switch (claim_shared(hashed, operand)) {
                case Claim::Taken: length().add(1); return MapStatus::Inserted;
                case Claim::Full: return MapStatus::Full;
                // Another thread took the slot, perhaps for this key, whose value may be on its way.
                case Claim::Lost: if constexpr (kApart) backoff(20); break;
            }
        }
    }

    // Removes a key; `before` is the value that it had.
    WK_DEVICE MapStatus erase(Key key, Held* before = nullptr) const {
        Place place = locate(hash(key));
        while (place.at) {
            Held value = Layout::value_part(place.slot);
            if constexpr (kApart) {
                fence();
                value = load<Scope::Device, Order::Relaxed>(values + (place.at - slots));
            }
            Slot was = cas<Scope::Device, kTaking>(place.at, place.slot, Slot{});
            if (same(was, place.slot)) {
                if (before) *before = value;
                length().add(~0ull);
                return MapStatus::Erased;
            }
            // The value changed, or another thread was first.
            if (Layout::key_part(was) != Layout::key_part(place.slot)) break;
            place.slot = was;
        }
        return MapStatus::Absent;
    }

    // Of a key that is there and whose value is apart: no thread erases it meanwhile.
    WK_DEVICE MapStatus upsert_apart(MapOp op, const Place& place, const Held& operand, Held* before) const {
        fence();
        Held* at = values + (place.at - slots);
        if (op == MapOp::Put && !before) {
            store<Scope::Device, Order::Release>(at, operand);
            return MapStatus::Updated;
        }
        Held old = op == MapOp::Put ? exchange<Scope::Device, Order::AcqRel>(at, operand) : load<Scope::Device, Order::Relaxed>(at);
        if (before) *before = old;
        return op == MapOp::Put ? MapStatus::Updated : MapStatus::Found;
    }

    enum class Claim { Taken, Lost, Full };

    // Takes the first empty slot. While no slot becomes empty, all threads that have the same key come to the same slot, so one of them gets it and the
    // others lose it.
    WK_DEVICE Claim claim_shared(Key hash, const Held& value) const {
        for (u32 second = 0; second < 2; second++) {
            Slot* at = bucket(bucket_of(hash, second));
            Key own = word(hash, second);
            // What tells the others whose slot it will be while the value is written.
            Key coming = kApart ? (Key)((own & ~(Key)kMapHeld) | kMapReserved) : own;
            for (u32 i = 0; i < kSlots; i++) {
                Slot empty{}, there = load<Scope::Device, Order::Relaxed>(at + i);
                if (same(there, empty)) {
                    Slot wanted = Layout::make(coming, value);
                    if (WK_FAULT_POINT("hash_map.shared_claim")) {
                        store<Scope::Device, Order::Relaxed>(at + i, wanted);
                    } else if (!same(cas<Scope::Device, kTaking>(at + i, empty, wanted), empty)) {
                        return Claim::Lost;
                    }
                    if constexpr (kApart) publish(at + i, own, value);
                    return Claim::Taken;
                }
                Key part = Layout::key_part(there);
                if (part == own || (kApart && part == coming)) return Claim::Lost;
            }
        }
        return Claim::Full;
    }
};

using HashMapRef = HashRef<u64, u64>;
using HashSetRef = HashRef<u64>;

}  // namespace wk
