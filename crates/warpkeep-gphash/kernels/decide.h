// Deciding a batch that is written straight through: which of its operations act, in which slots, and with which blocks. All of it in device
// memory, and nobody but the batch sees any of it.
//
// What an operation needs lies here and there: its enrolment, its entry in the mirror, buckets in the copies. What is known from its hash alone
// is under way at once, and a bucket is read as a whole.
#pragma once
#include "straight.h"

namespace gphash {

// The first and the last operation on a key.
struct Ends {
    u32 first;
    u32 last;
};

// Where a key's enrolment is looked for first.
WK_DEVICE Enrolled* first_enrolment(const StraightParams& p, u64 hash) {
    return p.enrolled + (hash == 0 ? p.enrolments : hash & (p.enrolments - 1));
}

WK_DEVICE Enrolled* next_enrolment(const StraightParams& p, const Enrolled* at) {
    return p.enrolled + ((u64)(at + 1 - p.enrolled) & (p.enrolments - 1));
}

// Enrols the operations of a key from one to another. Of most keys a batch has one, which takes one change of an enrolment as a whole.
WK_DEVICE void enrol(const StraightParams& p, u64 hash, u64 from, u64 to) {
    u32 first = (u32)(p.count - from), last = (u32)(to + 1);
    Enrolled* at = first_enrolment(p, hash);
    U128 had{0, 0};
    // The key whose hash is 0 has one to itself, and nobody sees there that it is taken.
    while (hash != 0) {
        had = load<Scope::Device, Order::Relaxed>((const U128*)at);
        if (had.lo == 0) had = cas<Scope::Device, Order::Relaxed>((U128*)at, U128{0, 0}, U128{hash, first | (u64)last << 32});
        if (had.lo == 0) return;
        if (had.lo == hash) break;
        at = next_enrolment(p, at);
    }
    // They only grow: at a key that everybody has, most can see that they change nothing.
    if (first > (u32)had.hi) fetch_max(&at->first, first);
    if (last > (u32)(had.hi >> 32)) fetch_max(&at->last, last);
}

// Who has enrolled for a key, given what its first place has, which was asked for earlier. Nobody enrols any more.
WK_DEVICE Ends ends_of(const StraightParams& p, u64 hash, U128 enrolled) {
    const Enrolled* at = first_enrolment(p, hash);
    while (enrolled.lo != hash) {
        at = next_enrolment(p, at);
        enrolled = load((const U128*)at);
    }
    return Ends{(u32)p.count - (u32)enrolled.hi, (u32)(enrolled.hi >> 32) - 1};
}

// What an operation is answered, and whether it is the one to act for its key.
WK_DEVICE Decision decide_among(u32 op, bool there, bool first, bool last) {
    switch (op) {
    case kPut: return Decision{(u8)(there || !first ? kOk : kCreated), last};
    case kInsertOp: return Decision{(u8)(there || !first ? kAlreadyExists : kCreated), first && !there};
    case kUpdate: return Decision{(u8)(there ? kOk : kNotFound), last && there};
    default: return Decision{(u8)(there && first ? kOk : kNotFound), first && there};
    }
}

// A slot of the levels that items are put into.
struct Spot {
    u32 level;
    u32 bucket;
    u32 slot;

    WK_DEVICE static Spot none() { return Spot{0, 0, kWarp}; }
    WK_DEVICE bool is() const { return slot != kWarp; }
    // Where it is in the image.
    WK_DEVICE u64 at(const StraightParams& p) const { return bucket_at(p.table, p.table.level[level], bucket) + 8 * slot; }
};

// The number of a bucket in the copies: there are fewer than 2^32.
WK_DEVICE u32 copied_bucket(const StraightParams& p, u32 level, u32 bucket) {
    const Table& t = p.table;
    return (u32)(first_number(t, level) - first_number(t, t.open_first)) + bucket;
}

// Where a slot is in the copies.
WK_DEVICE u64* copied_slot(const StraightParams& p, const Spot& spot) {
    return p.copies + (u64)copied_bucket(p, spot.level, spot.bucket) * p.table.slots() + spot.slot;
}

// Which slots of a bucket in the copies have a state, a bit each, for each lane of a warp that wants to know; none for others.
WK_DEVICE u32 slots_with(const StraightParams& p, u32 level, u32 bucket, u64 state, bool wants) {
    u32 slots = p.table.slots(), number = wants ? copied_bucket(p, level, bucket) : 0, with = 0;
    if (slots == 1) return wants && load<Scope::Device, Order::Relaxed>(p.copies + number) == state;
    for (u32 first = 0; first < slots; first += 2 * kLineParts) {
        const U128* lines = (const U128*)(p.copies + first);
        with |= Lines::at(lines, number, slots / 2, slots / 2).words_that_are(state) << first;
    }
    return !wants ? 0 : slots < 2 * kLineParts ? with & ((1u << slots) - 1) : with;
}

// The slot that has a word, for each lane of a warp that wants it; none if it is in the overflow.
WK_DEVICE Spot find_word(const StraightParams& p, u64 hash, u64 word, bool wants) {
    const Table& t = p.table;
    Spot spot = Spot::none();
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        for (u32 location = 0; location < t.hashes(); location++) {
            if (!Warp().any(wants)) return spot;
            u32 bucket = (u32)(top_bucket(t, hash, location) >> level);
            u32 with = slots_with(p, level, bucket, word, wants);
            if (!with) continue;
            spot = Spot{level, bucket, ffs(with) - 1};
            wants = false;
        }
    }
    return spot;
}

// Claims an empty slot; whether it still was.
WK_DEVICE bool claim_spot(const StraightParams& p, const Spot& spot) {
    u64* slot = copied_slot(p, spot);
    if (left_out(Step::Claimed)) {
        store<Scope::Device, Order::Relaxed>(slot, kInsert);
        return true;
    }
    return cas<Scope::Device, Order::Relaxed>(slot, kEmpty, kInsert) == kEmpty;
}

// Claims an empty slot in the copies, for each lane of a warp that wants one: where the CPU and `choose` would have it. None if there is none.
WK_DEVICE Spot claim_copied(const StraightParams& p, u64 hash, bool wants) {
    const Table& t = p.table;
    Spot spot = Spot::none();
    for (u32 level = t.open_first; level < t.open_first + t.open_count; level++) {
        // Whoever was faster has filled one of finitely many.
        for (bool looks = wants; Warp().any(looks);) {
            u32 best = (u32)(top_bucket(t, hash, 0) >> level), empty = slots_with(p, level, best, kEmpty, looks);
            bool crowded = looks && 2 * popc(empty) < t.slots();
            for (u32 location = 1; location < t.hashes() && Warp().any(crowded); location++) {
                u32 bucket = (u32)(top_bucket(t, hash, location) >> level);
                u32 others = slots_with(p, level, bucket, kEmpty, crowded);
                if (popc(others) <= popc(empty)) continue;
                best = bucket;
                empty = others;
            }
            looks = empty != 0;
            Spot its{level, best, ffs(empty) - 1};
            if (looks && claim_spot(p, its)) {
                spot = its;
                looks = wants = false;
            }
        }
    }
    return spot;
}

// Whether two operations have the same key, which is likely: they have the same hash.
WK_DEVICE bool same_row(const StraightParams& p, u64 one, u64 other) {
    u32 words = p.table.key_words();
    u64 differ = 0;
    for (u32 i = 0; i < words; i++) differ |= load(p.keys + one * words + i) ^ load(p.keys + other * words + i);
    return differ == 0;
}

// What is known of the key of an operation before it is decided.
struct Known {
    u64 record;
    // Where its entry is, or is to be; as looked for.
    Looked looked;
    // What the first place of its enrolment has.
    U128 enrolled;
};

// For each lane of a warp. The mirror tells keys apart that have one hash.
WK_DEVICE Known know(const StraightParams& p, u64 hash, const Key& key, bool mine) {
    const Table& t = p.table;
    Known known{kVeiled, Looked{kVeiled, kNowhere, false}, U128{0, 0}};
    // Under way while the mirror is asked.
    if (mine) known.enrolled = load((const U128*)first_enrolment(p, hash));
    known.looked = look_for_own(t, hash, key, mine);
    known.record = record_behind(t, known.looked.said);
    return known;
}

// Everything about the operation of each lane of a warp but its record: whether it acts.
WK_DEVICE bool plan_one(const StraightParams& p, u32 index, u64 hash, const Known& known, bool mine, Act& act) {
    const Table& t = p.table;
    u64 record = known.record;
    Ends ends = mine ? ends_of(p, hash, known.enrolled) : Ends{0, 0};
    // Another key with the same hash is enrolled with this one. If both ends are this key's they are right for it, and the other is done
    // by the CPU; if not, both are.
    if (t.key_len() != 8 && mine && !(same_row(p, index, ends.first) && same_row(p, index, ends.last))) record = kVeiled;
    bool there = record > kVeiled, asks = mine && record == kVeiled;
    Decision decision = decide_among(p.op, there, ends.first == index, ends.last == index);
    bool writes = mine && !asks && decision.writes;
    Spot spot = find_word(p, hash, t.state_of(hash, record), writes && there);
    Spot claimed = claim_copied(p, hash, writes && !there);
    if (!there) spot = claimed;
    // The CPU answers for keys that nothing is known of; for others it says so only if it cannot do it.
    bool answers = mine && !asks;
    if (answers) store(p.statuses + index, decision.status);
    // In the overflow, or nowhere yet.
    asks = asks || (writes && !spot.is());
    if (asks) store(p.asks + fetch_add(&p.came->asked, (u64)1), index | (answers ? kAnswered : 0));
    if (!writes || asks) return false;
    u32 kind = !there ? kFill : p.op == kDelete ? kClear : kReplaceWord;
    act = Act{spot.at(p), 0, there ? record : 0, copied_slot(p, spot), (U128*)Hint::of(t.mirror, hash, known.looked).entry, index, kind};
    return true;
}

}  // namespace gphash

// Enrols keys. A thread an operation; of those of a warp that have the same key the first enrols all.
WK_KERNEL(gphash_enrol, gphash::StraightParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.count) return;
    Warp warp;
    bool mine = index < p.count;
    Key key{p.keys + index * p.table.key_words(), p.table.key_len()};
    u64 hash = mine ? key.hash(p.table.seed) : 0;
    u32 same = warp.match_any(hash) & warp.ballot(mine);
    if (mine && ffs(same) == lane() + 1) enrol(p, hash, index, index - lane() + kWarp - 1 - clz(same));
}

// Decides, claims and hands out blocks. A thread an operation, of those that are to be decided now.
WK_KERNEL(gphash_decide, gphash::StraightParams) {
    using namespace gphash;
    const Table& t = p.table;
    u32 index = (u32)(p.first + global_index());
    bool mine = index < p.end;
    Key key{p.keys + (u64)index * t.key_words(), t.key_len()};
    u64 hash = mine ? key.hash(t.seed) : 0;
    Act act = no_act();
    bool is_sound = mine && is_key(t, key);
    if (mine && !is_sound) store(p.statuses + index, (u8)kMalformed);
    bool acts = plan_one(p, index, hash, know(p, hash, key, mine), is_sound, act);
    if (p.acting && mine) store(p.acting + index, (u8)acts);
    BlockWants<1> wants(acts);
    u64 number = BlockPlaces<1, u64>(wants, &p.came->acts).begin[0] + wants.rank(0);
    if (p.decided && thread_index() == 0 && wants.all) fetch_add(p.regions.all(), (u32)wants.all);
    if (!acts) return;
    if (p.decided) {
        store(p.ranks + number, p.regions.take(slot_of_act(p, act)));
        act.word = t.state_of(hash, 0);
        store_act(p.decided + number, act);
    } else {
        act.word = act.kind == kClear ? kEmpty : t.state_of(hash, load(p.blocks + number));
        store_act(p.acts + number, act);
    }
}
