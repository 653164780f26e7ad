// Copies of hot buckets in device memory: how they are read, and kept the same as the buckets in the image.
//
// Which buckets have copies changes only while the cache is loaded. Between loads readers take no references; while it goes on, a reader
// has a reference to a place before it reads there, and whoever loads waits until a place has none.
//
// A slot whose copy has the state of a claimed slot is read in the image: so it is while its copy is out of date. No copy shows an item
// that the image no longer has, nor one that it does not have yet: the CPU reads the image at the same time.
#pragma once
#include "table.h"

namespace gphash {

// Where the words of a slot are read, in the image or in a copy of its bucket.
struct Source {
    // What is added to offsets in the image.
    u64 base;

    WK_DEVICE u64* at(u64 offset) const { return (u64*)(base + offset); }
    WK_DEVICE u64 read(u64 offset) const { return load<Scope::System, Order::Acquire>(at(offset)); }
};

WK_DEVICE Source in_image(const Table& t) { return Source{(u64)t.image}; }
WK_DEVICE bool is_image(const Table& t, const Source& source) { return source.base == (u64)t.image; }

// The copy in a place, of the bucket at an offset.
WK_DEVICE Source in_place(const Table& t, u32 place, u64 bucket) {
    return Source{(u64)(t.cache.copies + (u64)place * t.bucket_words()) - bucket};
}

// Buckets that one warp asked for, and how many of them it found here.
struct Tally {
    u32 asked;
    u32 hits;
    // How many keys of the batch the next bucket is asked for.
    u32 uses;
};

WK_DEVICE void add_tally(const Cache& c, const Tally& tally) {
    if (!c.places || lane() != 0) return;
    u64* to = c.tallies + 2 * (global_index() / kWarp % kTallies);
    if (tally.asked) fetch_add(to, (u64)tally.asked);
    if (tally.hits) fetch_add(to + 1, (u64)tally.hits);
}

// The levels above one have as many buckets together: each has half of those of the one before.
WK_DEVICE u64 first_number(const Table& t, u32 level) { return 2 * (t.level[0].buckets - (t.level[0].buckets >> level)); }
WK_DEVICE u32 number_of(const Table& t, const Seat& seat) { return (u32)(first_number(t, seat.level) + seat.bucket); }

// The bucket with a number.
WK_DEVICE u64 bucket_numbered(const Table& t, u32 number) {
    u32 level = 0;
    while (level + 1 < t.levels && number >= first_number(t, level + 1)) level++;
    return bucket_at(t, t.level[level], number - first_number(t, level));
}

// Notes that a bucket is used.
WK_DEVICE void warm(const Cache& c, u32 number, u32 uses) {
    if (c.policy == kLfu) fetch_add(c.heat + number, uses);
    // Later by the order of the batch: in which order its warps run is nobody's concern.
    if (c.policy == kLru) fetch_max(c.heat + number, c.clock + (u32)(global_index() / kWarp));
}

// Takes a reference to the place of a bucket; kNotCached if it has just changed hands. Each side changes one word and then looks at the
// other's with a change that changes nothing, so at least one of them sees what the other did.
WK_DEVICE u32 refer(const Cache& c, u32 number, u32 place) {
    if (left_out(Step::Referenced)) return place;
    fetch_add<Scope::Device, Order::AcqRel>(c.references + place, 1u);
    u32 again = fetch_or<Scope::Device, Order::AcqRel>(c.places + number, 0u);
    if (again == place) return place;
    fetch_add<Scope::Device, Order::Release>(c.references + place, ~0u);
    return kNotCached;
}

WK_DEVICE bool leads(const Table& t) { return lane() % t.slots() == 0; }

// The place of the bucket that a lane looks at, or kNotCached. The first lane of each bucket asks for the others.
WK_DEVICE u32 take_copy(const Table& t, const Seat& seat, Tally& tally) {
    Warp warp;
    const Cache& c = t.cache;
    if (!c.places) return kNotCached;
    u32 place = kNotCached;
    if (leads(t)) {
        u32 number = number_of(t, seat);
        place = load<Scope::Device, Order::Relaxed>(c.places + number);
        if (c.loading && place != kNotCached) place = refer(c, number, place);
        warm(c, number, tally.uses);
    }
    tally.asked += tally.uses * (kWarp / t.slots());
    tally.hits += tally.uses * popc(warp.ballot(place != kNotCached));
    // What the first lane has learnt holds for the others, too.
    if (c.loading) warp.sync();
    return warp.shfl(place, lane() / t.slots() * t.slots());
}

// Gives the reference back, after all lanes have read.
WK_DEVICE void let_go(const Table& t, u32 place) {
    Warp warp;
    const Cache& c = t.cache;
    if (!c.places || !c.loading) return;
    warp.sync();
    if (!leads(t) || place == kNotCached) return;
    if (left_out(Step::Referenced)) fetch_add<Scope::Device, Order::AcqRel>(c.references + place, 1u);
    fetch_add<Scope::Device, Order::Release>(c.references + place, ~0u);
}

// A slot of which there is a copy.
struct Copy {
    Slot slot;
    Source source;

    WK_DEVICE bool is() const { return slot.is(); }
    WK_DEVICE void put(u64 offset, u64 word) const { store<Scope::Device, Order::Relaxed>(source.at(offset), word); }
};

// The copy of the slot that a word of the image belongs to: its state, or the first of its payload.
WK_DEVICE Copy copy_of(const Table& t, u64 at) {
    Copy none{Slot{0, 0}, Source{0}};
    if (!t.cache.places) return none;
    u64 bytes = 8 * t.bucket_words();
    for (u32 level = 0; level < t.levels; level++) {
        u64 within = at - t.level[level].offset;
        if (at < t.level[level].offset || within >= t.level[level].buckets * bytes) continue;
        Seat seat{level, within / bytes};
        u32 place = load<Scope::Device, Order::Relaxed>(t.cache.places + number_of(t, seat));
        if (place == kNotCached) return none;
        u32 word = (u32)(within % bytes / 8);
        u32 beside = t.slots() * (1 + t.slot_key_words());
        u32 number = t.body() == kPacked || word < t.slots() ? word : (word - beside) / t.slot_payload_words();
        Slot slot = slot_of(t, seat, number);
        return Copy{slot, in_place(t, place, slot.bucket)};
    }
    return none;
}

// Sends readers of a slot to the image.
WK_DEVICE void veil(const Copy& copy) { copy.put(copy.slot.state_at(), kInsert); }

// Makes the copy of a slot, which is veiled, what the image has. All that is beside the state before the state, and readers who had
// begun before find another state or another commit word.
WK_DEVICE void renew(const Table& t, const Copy& copy) {
    const Slot& slot = copy.slot;
    if (t.body() != kPacked) {
        for (u32 i = 0; i < t.slot_key_words(); i++) copy.put(slot.key_at(t) + 8 * i, peek(t, slot.key_at(t) + 8 * i));
        for (u32 i = t.slot_payload_words(); i-- > 0;) copy.put(slot.payload_at(t) + 8 * i, peek(t, slot.payload_at(t) + 8 * i));
        fence<Scope::Device>();
    }
    copy.put(slot.state_at(), peek(t, slot.state_at()));
}

}  // namespace gphash
