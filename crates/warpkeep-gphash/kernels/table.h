// The table as kernels read it: parameters, and arithmetic on its layout.
//
// The host passes the table's geometry and the offsets of its runs with every launch; everything else follows from a
// hash and these numbers. src/gpu/params.rs declares the parameter structs with the same fields in the same order: only
// the names may differ. docs/format.md describes the bytes in the image.
//
// A name that ends in `_at` is an offset in the image, in bytes.
#pragma once
#include "fault_points.h"

namespace gphash {

constexpr u64 kEmpty = 0;
constexpr u32 kReferenceBits = 45;
constexpr u64 kReferenceMask = (1ull << kReferenceBits) - 1;
// The state of a slot that a writer has claimed and not yet filled.
constexpr u64 kInsert = ~0ull << kReferenceBits;
// The state of an item whose fingerprint would equal kEmpty or kInsert. Such an item lies in one of two slots in the
// table's header.
constexpr u64 kSpecial = 1;
// Buckets of an overflow that a key can be in.
constexpr u32 kOverflowReach = 4;

constexpr u32 kMaxLevels = 16;
constexpr u32 kMaxOverflows = 9;

// What a slot holds beside its state. Packed: nothing, the state refers to the record. Inline: version and value.
// Reference: the record's offset. Inline and Reference also hold the key, unless the state identifies it.
enum Body : u32 { kPacked = 0, kInline = 1, kReference = 2 };

// A run of buckets: a level or an overflow.
struct Run {
    u64 offset;
    u64 buckets;
};

// Pairs of counters. Warps spread their counts over them, because atomic operations on one word are serialised.
constexpr u32 kHitCounters = 64;

// The value cache: values of hot keys in device memory, one row each. See value_cache/value_cache.h.
struct ValueCache {
    // Null if the table has no value cache.
    u64* rows;
    // The tail of each row: record offset, version, and the key unless it has eight bytes.
    u64* tails;
    // kHitCounters pairs: gets that found their key, and those of them that a row served.
    u64* hit_counters;
};

// The device index: key hash to record offset, in device memory. See index/device_index.h.
struct DeviceIndex {
    // Lines of kLineEntries entries. Null if the table has no device index.
    U128* entries;
    u64 lines;
    // Counts keys for which no entry was free within reach.
    u64* unplaced;
    // The key column: the key of each entry in whole words. Null if keys have eight bytes, or if device memory is
    // short. See index/keys.h.
    u64* keys;
    ValueCache value_cache;
};

struct Table {
    u8* image;
    u64 seed;
    // Offset of the two special slots in the header; 0 if the table has none.
    u64 special_slots;
    // All levels, the largest first; the open ones, which receive new items; the ones being drained.
    u32 levels;
    u32 open_first;
    u32 open_count;
    u32 drained_first;
    u32 drained_count;
    // The first overflow receives new items, the others are being drained.
    u32 overflows;
    // Not 0 if the first overflow may hold items.
    u32 overflow_in_use;
    u32 hashes_;
    u32 slots_;
    u32 body_;
    u32 key_len_;
    u32 value_len_;
    u32 merge_rule;
    // Not 0 if each record stores the lengths of its key and value.
    u32 variable_;
    // Bytes behind the value of a record that lies in a tile; 0 if records do not lie in tiles.
    u32 tail_len_;
    // The longest key, where keys of any length are stored in padded cells (cells.h); otherwise 0.
    u32 max_key_len_;
    // Not 0 if a checksum follows each record's version.
    u32 checksums_;
    u32 reserved_;
    Run level[kMaxLevels];
    Run overflow[kMaxOverflows];
    DeviceIndex index;

// Constants in a program that was compiled for one kind of table, parameters otherwise.
#if defined(GPHASH_SLOTS)
    WK_DEVICE u32 hashes() const { return GPHASH_HASHES; }
    WK_DEVICE u32 slots() const { return GPHASH_SLOTS; }
    WK_DEVICE u32 body() const { return GPHASH_BODY; }
    WK_DEVICE u32 key_len() const { return GPHASH_KEY_LEN; }
    WK_DEVICE u32 value_len() const { return GPHASH_VALUE_LEN; }
    WK_DEVICE bool variable() const { return GPHASH_VARIABLE; }
    WK_DEVICE u32 tail_len() const { return GPHASH_TAIL_LEN; }
    WK_DEVICE u32 max_key_len() const { return GPHASH_LONGEST; }
    WK_DEVICE bool checksums() const { return GPHASH_CHECKSUMS; }
#else
    WK_DEVICE u32 hashes() const { return hashes_; }
    WK_DEVICE u32 slots() const { return slots_; }
    WK_DEVICE u32 body() const { return body_; }
    WK_DEVICE u32 key_len() const { return key_len_; }
    WK_DEVICE u32 value_len() const { return value_len_; }
    WK_DEVICE bool variable() const { return variable_ != 0; }
    WK_DEVICE u32 tail_len() const { return tail_len_; }
    WK_DEVICE u32 max_key_len() const { return max_key_len_; }
    WK_DEVICE bool checksums() const { return checksums_ != 0; }
#endif

    WK_DEVICE u32 key_words() const { return (key_len() + 7) / 8; }
    WK_DEVICE u32 value_words() const { return (value_len() + 7) / 8; }
    // Whether the state of a slot identifies the key, so that the key is not stored.
    WK_DEVICE bool fingerprint_is_key() const { return body() != kPacked && key_len() == 8; }
    // Words of key and payload that each slot has beside its state.
    WK_DEVICE u32 slot_key_words() const { return body() == kPacked || key_len() == 8 ? 0 : key_words(); }
    WK_DEVICE u32 slot_payload_words() const { return body() == kPacked ? 0 : body() == kInline ? 3 : 1; }
    WK_DEVICE u32 bucket_words() const { return slots() * (1 + slot_key_words() + slot_payload_words()); }
    // Key words of a record. Tables that are not packed store the key in the slot.
    WK_DEVICE u32 record_key_words() const { return body() == kPacked ? key_words() : 0; }

    // A record of fixed length is identified by its offset; in a tile, by its name: the offset of the value plus eight
    // times the record's number in the tile. The values of a tile come first, each at a multiple of 128 bytes, then the
    // tails (key, version, checksum). docs/format.md 2.5.
    WK_DEVICE bool tiled() const { return tail_len() != 0; }
    WK_DEVICE u32 tile_records() const { return tail_len() ? 128 / (tail_len() & (0u - tail_len())) : 1; }
    // Offsets of a record's value, of its key and version, and of its version.
    WK_DEVICE u64 value_at(u64 record) const { return tiled() ? record & ~127ull : record; }
    WK_DEVICE u64 tail_at(u64 record) const {
        if (!tiled()) return record + 8 * value_words();
        return value_at(record) + tile_records() * value_len() - record % 128 / 8 * (value_len() - tail_len());
    }
    WK_DEVICE u64 version_at(u64 record) const { return tail_at(record) + 8 * record_key_words(); }
    // Offset of word i of a record, counted through value and tail.
    WK_DEVICE u64 word_at(u64 record, u32 i) const {
        return i < value_words() ? value_at(record) + 8 * i : tail_at(record) + 8 * (i - value_words());
    }

    WK_DEVICE u64* at(u64 offset) const { return (u64*)(image + offset); }

    WK_DEVICE u64 fingerprint(u64 hash) const { return hash == kEmpty || hash == kInsert ? hash ^ 1 : hash; }
    // The number of the special slot for this hash, or -1 if the key lies in an ordinary slot.
    WK_DEVICE i32 special_slot(u64 hash) const {
        if (!fingerprint_is_key()) return -1;
        return hash == kEmpty ? 0 : hash == kInsert ? 1 : -1;
    }
    WK_DEVICE u64 state_of(u64 hash, u64 record) const {
        if (body() == kPacked) return hash << kReferenceBits | record >> 3;
        return special_slot(hash) >= 0 ? kSpecial : fingerprint(hash);
    }
};

// A slot of the table.
struct Slot {
    // Offset of its bucket; 0 if this is no slot.
    u64 bucket;
    u32 number;

    WK_DEVICE bool is_valid() const { return bucket != 0; }
    WK_DEVICE u64 state_at() const { return bucket + 8 * number; }
    WK_DEVICE u64 key_at(const Table& t) const { return bucket + 8 * (t.slots() + number * t.slot_key_words()); }
    WK_DEVICE u64 payload_at(const Table& t) const {
        return bucket + 8 * (t.slots() * (1 + t.slot_key_words()) + number * t.slot_payload_words());
    }
};

WK_DEVICE u64 peek(const Table& t, u64 offset) { return load<Scope::System, Order::Relaxed>(t.at(offset)); }
WK_DEVICE void poke(const Table& t, u64 offset, u64 word) { store<Scope::System, Order::Relaxed>(t.at(offset), word); }

WK_DEVICE u64 bucket_at(const Table& t, const Run& run, u64 bucket) {
    return run.offset + bucket * t.bucket_words() * 8;
}

// The bucket that a hash location selects in the largest level. In level i it is this number shifted right by i.
WK_DEVICE u64 top_bucket(const Table& t, u64 hash, u32 location) {
    for (u32 i = 0; i < location; i++) hash = second_hash(hash);
    return reduce(hash, t.level[0].buckets);
}

// A bucket of a level.
struct LevelBucket {
    u32 level;
    u64 number;
};

// Buckets in the levels above this one: each level has half as many as the level before it.
WK_DEVICE u64 first_bucket_number(const Table& t, u32 level) {
    return 2 * (t.level[0].buckets - (t.level[0].buckets >> level));
}

// The bucket that a lane reads when the 32 lanes of a warp read all open slots of a key, one each.
WK_DEVICE LevelBucket open_bucket(const Table& t, u64 hash, u32 lane) {
    u32 level = t.open_first + lane / (t.hashes() * t.slots());
    u32 location = lane / t.slots() % t.hashes();
    return LevelBucket{level, top_bucket(t, hash, location) >> level};
}

// The slot of that bucket that the lane reads.
WK_DEVICE Slot slot_in(const Table& t, const LevelBucket& bucket, u32 lane) {
    return Slot{bucket_at(t, t.level[bucket.level], bucket.number), lane % t.slots()};
}

WK_DEVICE Slot open_slot(const Table& t, u64 hash, u32 lane) { return slot_in(t, open_bucket(t, hash, lane), lane); }

// The slot that a lane reads when a warp reads all slots of a key in one level.
WK_DEVICE Slot level_slot(const Table& t, u32 level, u64 hash, u32 lane) {
    if (lane >= t.hashes() * t.slots()) return Slot{0, 0};
    u32 location = lane / t.slots();
    return Slot{bucket_at(t, t.level[level], top_bucket(t, hash, location) >> level), lane % t.slots()};
}

// Slot `number` of those that a key can be in, in an overflow: kOverflowReach buckets from the one that its hash
// selects.
WK_DEVICE Slot overflow_slot(const Table& t, const Run& run, u64 hash, u32 number) {
    u32 step = number / t.slots();
    if (step >= kOverflowReach || step >= run.buckets) return Slot{0, 0};
    u64 first = reduce(rotl(hash, 32), run.buckets);
    return Slot{bucket_at(t, run, (first + step) % run.buckets), number % t.slots()};
}

}  // namespace gphash
