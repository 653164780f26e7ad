// A table as kernels see it. The layout of every struct here is mirrored in src/gpu/params.rs, and that of the bytes they
// lead to is docs/format.md.
#pragma once
#include "steps.h"

namespace gphash {

constexpr u64 kEmpty = 0;
constexpr u32 kReferenceBits = 45;
constexpr u64 kReferenceMask = (1ull << kReferenceBits) - 1;
// A slot that somebody has claimed and not yet filled.
constexpr u64 kInsert = ~0ull << kReferenceBits;
// The state of an item whose fingerprint would be one of the two above; it lies in the header.
constexpr u64 kSpecial = 1;
constexpr u32 kOverflowReach = 4;

constexpr u32 kMaxLevels = 16;
constexpr u32 kMaxOverflows = 9;

enum Body : u32 { kPacked = 0, kInline = 1, kReference = 2 };

// A run of buckets: a level or an overflow.
struct Run {
    u64 offset;
    u64 buckets;
};

// Pairs of counters that warps spread what they count over.
constexpr u32 kTallies = 64;

// Values of some keys in device memory, a row each; see values.h.
struct Values {
    // Null if there are none.
    u64* rows;
    // For each row what is beside a value: its record, its version, and its key unless that has eight bytes.
    u64* tails;
    // Gets of keys that are there, and those of them that a row answered, in kTallies pairs.
    u64* tallies;
};

// The record of each key, in device memory; see mirror.h.
struct Mirror {
    // Null if there is no mirror.
    U128* entries;
    u64 buckets;
    // Keys that found no room.
    u64* unplaced;
    // For each entry its key, in whole words, where keys can share a hash; null if there are none. See keys.h.
    u64* keys;
    Values values;
};

struct Table {
    u8* image;
    u64 seed;
    // The offset of the slots in the header, or 0.
    u64 specials;
    // All levels, the largest first; those that items are put into; those that are being drained.
    u32 levels;
    u32 open_first;
    u32 open_count;
    u32 drained_first;
    u32 drained_count;
    // The one that items are put into comes first.
    u32 overflows;
    u32 look_in_overflow;
    u32 hashes_;
    u32 slots_;
    u32 body_;
    u32 key_len_;
    u32 value_len_;
    u32 merge_rule;
    // Records say themselves how long their keys and values are.
    u32 variable_;
    // Bytes of what is behind the value of a record that lies in a tile; 0 if it lies in none.
    u32 tail_len_;
    // The longest key, where keys have any length and lie in cells; otherwise 0.
    u32 longest_;
    // Whether records have checksums behind their versions.
    u32 checksums_;
    u32 reserved_;
    Run level[kMaxLevels];
    Run overflow[kMaxOverflows];
    Mirror mirror;

// Compiled for one kind of table these are constants; otherwise they are read.
#if defined(GPHASH_SLOTS)
    WK_DEVICE u32 hashes() const { return GPHASH_HASHES; }
    WK_DEVICE u32 slots() const { return GPHASH_SLOTS; }
    WK_DEVICE u32 body() const { return GPHASH_BODY; }
    WK_DEVICE u32 key_len() const { return GPHASH_KEY_LEN; }
    WK_DEVICE u32 value_len() const { return GPHASH_VALUE_LEN; }
    WK_DEVICE bool variable() const { return GPHASH_VARIABLE; }
    WK_DEVICE u32 tail_len() const { return GPHASH_TAIL_LEN; }
    WK_DEVICE u32 longest() const { return GPHASH_LONGEST; }
    WK_DEVICE bool checksums() const { return GPHASH_CHECKSUMS; }
#else
    WK_DEVICE u32 hashes() const { return hashes_; }
    WK_DEVICE u32 slots() const { return slots_; }
    WK_DEVICE u32 body() const { return body_; }
    WK_DEVICE u32 key_len() const { return key_len_; }
    WK_DEVICE u32 value_len() const { return value_len_; }
    WK_DEVICE bool variable() const { return variable_ != 0; }
    WK_DEVICE u32 tail_len() const { return tail_len_; }
    WK_DEVICE u32 longest() const { return longest_; }
    WK_DEVICE bool checksums() const { return checksums_ != 0; }
#endif

    WK_DEVICE u32 key_words() const { return (key_len() + 7) / 8; }
    WK_DEVICE u32 value_words() const { return (value_len() + 7) / 8; }
    // Whether the state of an item is its key, so that the key is not stored.
    WK_DEVICE bool fingerprint_is_key() const { return body() != kPacked && key_len() == 8; }
    // Words a slot has of each, beside its state.
    WK_DEVICE u32 slot_key_words() const { return body() == kPacked || key_len() == 8 ? 0 : key_words(); }
    WK_DEVICE u32 slot_payload_words() const { return body() == kPacked ? 0 : body() == kInline ? 3 : 1; }
    WK_DEVICE u32 bucket_words() const { return slots() * (1 + slot_key_words() + slot_payload_words()); }
    // Words of a record's key: in place the slot has it.
    WK_DEVICE u32 record_key_words() const { return body() == kPacked ? key_words() : 0; }

    // Records of fixed lengths, by what slots and mirror call them: the offset, or in a tile the name, which is where the value lies plus eight
    // times the record's number there. In a tile the values come first, each at a multiple of 128 bytes, and then the tails.
    WK_DEVICE bool tiled() const { return tail_len() != 0; }
    WK_DEVICE u32 tile_records() const { return tail_len() ? 128 / (tail_len() & (0u - tail_len())) : 1; }
    // Where the value lies; where key and version do; where the version does.
    WK_DEVICE u64 value_at(u64 record) const { return tiled() ? record & ~127ull : record; }
    WK_DEVICE u64 tail_at(u64 record) const {
        if (!tiled()) return record + 8 * value_words();
        return value_at(record) + tile_records() * value_len() - record % 128 / 8 * (value_len() - tail_len());
    }
    WK_DEVICE u64 version_at(u64 record) const { return tail_at(record) + 8 * record_key_words(); }
    // Where a word of the record lies, counted through value and tail.
    WK_DEVICE u64 word_at(u64 record, u32 i) const {
        return i < value_words() ? value_at(record) + 8 * i : tail_at(record) + 8 * (i - value_words());
    }

    WK_DEVICE u64* at(u64 offset) const { return (u64*)(image + offset); }

    WK_DEVICE u64 fingerprint(u64 hash) const { return hash == kEmpty || hash == kInsert ? hash ^ 1 : hash; }
    // The slot in the header of the key with this hash, or -1.
    WK_DEVICE i32 special(u64 hash) const {
        if (!fingerprint_is_key()) return -1;
        return hash == kEmpty ? 0 : hash == kInsert ? 1 : -1;
    }
    WK_DEVICE u64 state_of(u64 hash, u64 record) const {
        if (body() == kPacked) return hash << kReferenceBits | record >> 3;
        return special(hash) >= 0 ? kSpecial : fingerprint(hash);
    }
};

// One slot of the table.
struct Slot {
    // The offset of its bucket; 0 is no slot.
    u64 bucket;
    u32 number;

    WK_DEVICE bool is() const { return bucket != 0; }
    WK_DEVICE u64 state_at() const { return bucket + 8 * number; }
    WK_DEVICE u64 key_at(const Table& t) const { return bucket + 8 * (t.slots() + number * t.slot_key_words()); }
    WK_DEVICE u64 payload_at(const Table& t) const {
        return bucket + 8 * (t.slots() * (1 + t.slot_key_words()) + number * t.slot_payload_words());
    }
};

WK_DEVICE u64 peek(const Table& t, u64 offset) { return load<Scope::System, Order::Relaxed>(t.at(offset)); }
WK_DEVICE void poke(const Table& t, u64 offset, u64 word) { store<Scope::System, Order::Relaxed>(t.at(offset), word); }

WK_DEVICE u64 bucket_at(const Table& t, const Run& run, u64 bucket) { return run.offset + bucket * t.bucket_words() * 8; }

// The top bucket of a hash location, among the buckets of the largest level.
WK_DEVICE u64 top_bucket(const Table& t, u64 hash, u32 location) {
    for (u32 i = 0; i < location; i++) hash = second_hash(hash);
    return reduce(hash, t.level[0].buckets);
}

// A bucket of a level.
struct Seat {
    u32 level;
    u64 bucket;
};

// Buckets of the levels above one, together: each level has half of those of the one before.
WK_DEVICE u64 first_number(const Table& t, u32 level) { return 2 * (t.level[0].buckets - (t.level[0].buckets >> level)); }

// The bucket that a lane looks at when a warp looks at all slots of a key that items are put into, at once.
WK_DEVICE Seat open_seat(const Table& t, u64 hash, u32 lane) {
    u32 below = t.open_first + lane / (t.hashes() * t.slots());
    u32 location = lane / t.slots() % t.hashes();
    return Seat{below, top_bucket(t, hash, location) >> below};
}

// The slot in it.
WK_DEVICE Slot slot_of(const Table& t, const Seat& seat, u32 lane) {
    return Slot{bucket_at(t, t.level[seat.level], seat.bucket), lane % t.slots()};
}

WK_DEVICE Slot open_slot(const Table& t, u64 hash, u32 lane) { return slot_of(t, open_seat(t, hash, lane), lane); }

// The same, in one level.
WK_DEVICE Slot level_slot(const Table& t, u32 below, u64 hash, u32 lane) {
    if (lane >= t.hashes() * t.slots()) return Slot{0, 0};
    u32 location = lane / t.slots();
    return Slot{bucket_at(t, t.level[below], top_bucket(t, hash, location) >> below), lane % t.slots()};
}

// Slot `which` of those in an overflow that a key can be in; kOverflowReach buckets of them.
WK_DEVICE Slot overflow_slot(const Table& t, const Run& run, u64 hash, u32 which) {
    u32 step = which / t.slots();
    if (step >= kOverflowReach || step >= run.buckets) return Slot{0, 0};
    u64 first = reduce(rotl(hash, 32), run.buckets);
    return Slot{bucket_at(t, run, (first + step) % run.buckets), which % t.slots()};
}

}  // namespace gphash
