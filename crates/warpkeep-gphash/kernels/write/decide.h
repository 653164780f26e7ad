// Deciding a fused write: which operations have effects, in which slots, and with which blocks. All of it in device
// memory, and invisible to readers.
//
// An operation needs its entry of the dedup table, its entry of the device index, and buckets of the level copies. All
// loads that depend on the hash alone are issued together, and a bucket is read as a whole.
//
// Invariant: the decisions equal those of the CPU, which would apply the operations in order: the first or the last
// occurrence of a key has the effect for all of them. Operations that cannot be decided here go to the fallback list,
// and the CPU does them after the batch.
#pragma once
#include "write/fused.h"

namespace gphash {

// The status of an operation, and whether it is the occurrence of its key that has the effect.
WK_DEVICE Decision decide_occurrence(u32 op, bool exists, bool first, bool last) {
    switch (op) {
    case kPut: return Decision{(u8)(exists || !first ? kOk : kCreated), last};
    case kInsertOp: return Decision{(u8)(exists || !first ? kAlreadyExists : kCreated), first && !exists};
    case kUpdate: return Decision{(u8)(exists ? kOk : kNotFound), last && exists};
    default: return Decision{(u8)(exists && first ? kOk : kNotFound), first && exists};
    }
}

// A slot of an open level.
struct LevelSlot {
    u32 level;
    u32 bucket;
    u32 number;

    WK_DEVICE static LevelSlot none() { return LevelSlot{0, 0, kWarp}; }
    WK_DEVICE bool is_valid() const { return number != kWarp; }
    WK_DEVICE u64 image_offset(const FusedParams& p) const {
        return bucket_at(p.table, p.table.level[level], bucket) + 8 * number;
    }
};

// The number of a bucket in the copies: there are fewer than 2^32.
WK_DEVICE u32 bucket_in_copies(const FusedParams& p, u32 level, u32 bucket) {
    const Table& t = p.table;
    return (u32)(first_bucket_number(t, level) - first_bucket_number(t, t.open_first)) + bucket;
}

WK_DEVICE u64* slot_in_copies(const FusedParams& p, const LevelSlot& slot) {
    return p.copies + (u64)bucket_in_copies(p, slot.level, slot.bucket) * p.table.slots() + slot.number;
}

// The slots of a bucket in the copies that have this state, one bit each, for each lane with `wants`; 0 for other
// lanes.
WK_DEVICE u32 slots_with(const FusedParams& p, u32 level, u32 bucket, u64 state, bool wants) {
    u32 slots = p.table.slots(), number = wants ? bucket_in_copies(p, level, bucket) : 0, matches = 0;
    if (slots == 1) return wants && load<Scope::Device, Order::Relaxed>(p.copies + number) == state;
    for (u32 first = 0; first < slots; first += 2 * kLineParts) {
        const U128* lines = (const U128*)(p.copies + first);
        matches |= Lines::at(lines, number, slots / 2, slots / 2).words_equal(state) << first;
    }
    return !wants ? 0 : slots < 2 * kLineParts ? matches & ((1u << slots) - 1) : matches;
}

// The slot that has a word, for each lane with `wants`; none if the item is in the overflow.
WK_DEVICE LevelSlot find_word(const FusedParams& p, u64 hash, u64 word, bool wants) {
    const Table& t = p.table;
    LevelSlot slot = LevelSlot::none();
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        for (u32 location = 0; location < t.hashes(); location++) {
            if (!Warp().any(wants)) return slot;
            u32 bucket = (u32)(top_bucket(t, hash, location) >> level);
            u32 matches = slots_with(p, level, bucket, word, wants);
            if (!matches) continue;
            slot = LevelSlot{level, bucket, ffs(matches) - 1};
            wants = false;
        }
    }
    return slot;
}

// Claims an empty slot in the copies; false if it was taken meanwhile.
WK_DEVICE bool try_claim(const FusedParams& p, const LevelSlot& slot) {
    u64* word = slot_in_copies(p, slot);
    if (is_omitted(FaultPoint::AtomicClaim)) {
        store<Scope::Device, Order::Relaxed>(word, kInsert);
        return true;
    }
    return cas<Scope::Device, Order::Relaxed>(word, kEmpty, kInsert) == kEmpty;
}

// Claims an empty slot in the copies for each lane with `wants`, by the rule of the CPU and of choose_slot. None if all
// are taken.
WK_DEVICE LevelSlot claim_in_copies(const FusedParams& p, u64 hash, bool wants) {
    const Table& t = p.table;
    LevelSlot slot = LevelSlot::none();
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        // A failed claim means that another lane took one of finitely many slots.
        for (bool searching = wants; Warp().any(searching);) {
            u32 best = (u32)(top_bucket(t, hash, 0) >> level), empty = slots_with(p, level, best, kEmpty, searching);
            bool crowded = searching && 2 * popc(empty) < t.slots();
            for (u32 location = 1; location < t.hashes() && Warp().any(crowded); location++) {
                u32 bucket = (u32)(top_bucket(t, hash, location) >> level);
                u32 other_empty = slots_with(p, level, bucket, kEmpty, crowded);
                if (popc(other_empty) <= popc(empty)) continue;
                best = bucket;
                empty = other_empty;
            }
            searching = empty != 0;
            LevelSlot candidate{level, best, ffs(empty) - 1};
            if (searching && try_claim(p, candidate)) {
                slot = candidate;
                searching = wants = false;
            }
        }
    }
    return slot;
}

// Whether two operations have the same key, which is likely, because their hashes are equal.
WK_DEVICE bool same_row(const FusedParams& p, u64 one, u64 other) {
    u32 words = p.table.key_words();
    u64 differ = 0;
    for (u32 i = 0; i < words; i++) differ |= load(p.keys + one * words + i) ^ load(p.keys + other * words + i);
    return differ == 0;
}

// What the device index and the dedup table hold for the key of an operation.
struct KeyLookup {
    u64 record;
    // The position of its entry, or of a free one.
    Probe probe;
    // The first entry of the dedup table that its hash selects.
    U128 dedup_entry;
};

// Looks up the key of each lane of a warp. With a key column, keys that share a hash are distinguished.
WK_DEVICE KeyLookup look_up_key(const FusedParams& p, u64 hash, const Key& key, bool active) {
    const Table& t = p.table;
    KeyLookup lookup{kBusy, Probe{kBusy, kNoPosition, false}, U128{0, 0}};
    // In flight while the index is searched.
    if (active) lookup.dedup_entry = load((const U128*)p.dedup.first_entry(hash));
    lookup.probe = probe_key(t, hash, key, active);
    lookup.record = target_record(t, lookup.probe.target);
    return lookup;
}

// Decides the operation of each lane of a warp, except for the block; true if it has an effect.
WK_DEVICE bool decide_one(const FusedParams& p, u32 index, u64 hash, const KeyLookup& lookup, bool active,
                          Effect& effect) {
    const Table& t = p.table;
    u64 record = lookup.record;
    Occurrences occurrences = active ? p.dedup.find(hash, lookup.dedup_entry) : Occurrences{0, 0};
    // A different key with the same hash shares this entry of the dedup table. If both occurrences are of this key they
    // are correct for it, and the other key falls back to the CPU; otherwise both keys do.
    if (t.key_len() != 8 && active &&
        !(same_row(p, index, occurrences.first) && same_row(p, index, occurrences.last))) {
        record = kBusy;
    }
    bool exists = record > kBusy, falls_back = active && record == kBusy;
    Decision decision = decide_occurrence(p.op, exists, occurrences.first == index, occurrences.last == index);
    bool writes = active && !falls_back && decision.writes;
    LevelSlot slot = find_word(p, hash, t.state_of(hash, record), writes && exists);
    LevelSlot free_slot = claim_in_copies(p, hash, writes && !exists);
    if (!exists) slot = free_slot;
    // The status of a key that is known here is stored now; the CPU replaces it only if it cannot do the operation.
    bool is_answered = active && !falls_back;
    if (is_answered) store(p.statuses + index, decision.status);
    // The item is in the overflow, or no slot is free.
    falls_back = falls_back || (writes && !slot.is_valid());
    if (falls_back) {
        store(p.fallbacks + fetch_add(&p.summary->fallbacks, (u64)1), index | (is_answered ? kAnswered : 0));
    }
    if (!writes || falls_back) return false;
    u32 kind = !exists ? kFill : p.op == kDelete ? kClear : kReplaceWord;
    effect = Effect{slot.image_offset(p),
                    0,
                    exists ? record : 0,
                    slot_in_copies(p, slot),
                    (U128*)EntryHint::of(t.index, hash, lookup.probe).entry,
                    index,
                    kind};
    return true;
}

}  // namespace gphash

// Enters keys in the dedup table. One thread per operation; of the lanes of a warp with one key, the first enters all.
WK_KERNEL(gphash_dedup, gphash::FusedParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.count) return;
    Warp warp;
    bool active = index < p.count;
    Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
    u64 hash = active ? key.hash(p.table.seed) : 0;
    u32 same = warp.match_any(hash) & warp.ballot(active);
    if (active && ffs(same) == lane() + 1) p.dedup.insert(hash, index, index - lane() + kWarp - 1 - clz(same));
}

// Decides operations, claims slots and assigns blocks. One thread per operation from `first` to `end`.
WK_KERNEL(gphash_decide, gphash::FusedParams) {
    using namespace gphash;
    const Table& t = p.table;
    u32 index = (u32)(p.first + global_index());
    bool active = index < p.end;
    Key key{p.keys + (u64)index * t.key_words(), t.key_len()};
    u64 hash = active ? key.hash(t.seed) : 0;
    Effect effect = no_effect();
    bool is_valid_key = active && is_key(t, key);
    if (active && !is_valid_key) store(p.statuses + index, (u8)kMalformed);
    bool has_effect = decide_one(p, index, hash, look_up_key(p, hash, key, active), is_valid_key, effect);
    if (p.has_effect && active) store(p.has_effect + index, (u8)has_effect);
    BlockCounts<1> counts(has_effect);
    u64 number = BlockPositions<1, u64>(counts, &p.summary->effects).begin[0] + counts.rank(0);
    if (p.unsorted && thread_index() == 0 && counts.all) fetch_add(p.partition.total(), (u32)counts.all);
    if (!has_effect) return;
    if (p.unsorted) {
        store(p.ranks + number, p.partition.rank(slot_of_effect(p, effect)));
        effect.word = t.state_of(hash, 0);
        store_effect(p.unsorted + number, effect);
    } else {
        effect.word = effect.kind == kClear ? kEmpty : t.state_of(hash, load(p.blocks + number));
        store_effect(p.effects + number, effect);
    }
}
