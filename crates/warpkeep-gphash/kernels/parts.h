// A large batch in parts, so that the link has something to carry all the time: while the records of one part go, in the order of their
// addresses, the words of the part before go, here and there in the index. A launch is a beat. In beat i
//   - records of part i are written, and the entries of its keys veiled;
//   - words of part i - 1 are stored, which lead to records of the beat before;
//   - entries of part i - 2 are set, whose words are in the image.
//
// The words can be the host's to store, whose cores are nearer to the index than the device: one at a time they cost the link as much as
// 60 bytes of a record. Then all entries are veiled first. Part after part is sent, records and words, one after the other; the host waits
// for each, and stores its words while the next ones go. When it has stored the last, all entries are set. What is done in device
// memory is not in a launch with what crosses the link, nor beside it: what a multiprocessor loads waits behind what it has stored to
// the link, six times as long as otherwise.
//
// Within a beat nothing has an order. From one to the next everything has: each block fences when it has stored what it stores, once,
// for there are only as many blocks as run at the same time.
//
// Where the device stores words, acts are in the order of their slots: the words of a part lie in one stretch of each level, and those of a
// warp on few lines. The host has caches, and no need for it.
//
// A crash finds each key with what it had or with what it was to have, as in a batch of one part; and words of a part, but never one
// whose record is not there.
#pragma once
#include "straight.h"

namespace gphash {

// Parts of a batch, at the most.
constexpr u32 kMostParts = 32;

// What a launch does of a beat, in bits. Entries are those of two beats before.
constexpr u64 kSends = 1;
constexpr u64 kVeils = 2;
constexpr u64 kEntries = 4;

// Threads of a block that does nothing but send.
constexpr u32 kSendThreads = 512;

struct BeatParams {
    StraightParams straight;
    u64 beat;
    u64 parts;
    u64 does;
};

// Acts side by side.
struct Span {
    u64 first;
    u64 count;
};

// The acts of a part; none if there is no such part.
WK_DEVICE Span part_of(const BeatParams& p, u64 part) {
    if (part >= p.parts) return Span{0, 0};
    u64 acts = load(&p.straight.came->acts);
    u64 first = acts * part / p.parts;
    return Span{first, acts * (part + 1) / p.parts - first};
}

// What threads of a beat share: who this one is, and how many they are.
struct Hand {
    u64 index;
    u64 hands;
};

WK_DEVICE void veil_entries(const StraightParams& p, const Span& span, const Hand& hand) {
    for (u64 i = hand.index; i < span.count; i += hand.hands) {
        Act* act = p.acts + span.first + i;
        store(&act->entry, veil_act(p, act));
    }
}

WK_DEVICE void store_words(const StraightParams& p, const Span& span, const Hand& hand) {
    for (u64 i = hand.index; i < span.count; i += hand.hands) {
        const Act* act = p.acts + span.first + i;
        poke(p.table, load(&act->at), load(&act->word));
    }
}

// Tells the host the words of a part.
WK_DEVICE void tell_words(const StraightParams& p, u64 part, const Span& span, const Hand& hand) {
    if (hand.index == 0) store_streaming(p.words + part, U128{span.first, span.count});
    U128* words = p.words + kMostParts + span.first;
    for (u64 i = hand.index; i < span.count; i += hand.hands) {
        const Act* act = p.acts + span.first + i;
        store_streaming(words + i, U128{load(&act->at), load(&act->word)});
    }
}

// All lanes of a warp.
WK_DEVICE void settle_entries(const StraightParams& p, const Span& span, const Hand& hand) {
    for (u64 i = hand.index; i / kWarp * kWarp < span.count; i += hand.hands) {
        bool mine = i < span.count;
        const Act* act = p.acts + span.first + i;
        settle_act(p, act, mine, mine ? load(&act->entry) : nullptr);
    }
}

// What crosses the link where the host stores the words: the records of a part, and the words for the host.
WK_DEVICE void send(const BeatParams& p, const Hand& hand) {
    const StraightParams& s = p.straight;
    // Left out, records come with the words of the part after theirs.
    Span records = part_of(p, left_out(Step::Behind) ? p.beat - 1 : p.beat);
    u64 stores = s.op != kDelete && records.count > 0 ? pieces_of(s, records.count) : 0;
    u64 before = stores ? before_in_tile(s, records.first) : 0;
    for (u64 i = hand.index; i < stores; i += kPieces * hand.hands) {
        write_pieces(s, records.first, records.count, before, i, hand.hands);
    }
    if (p.beat < p.parts) tell_words(s, p.beat, part_of(p, p.beat), hand);
}

// The share of a thread in a beat; all threads of a block.
WK_DEVICE void beat(const BeatParams& p, const Hand& hand, u64 block) {
    const StraightParams& s = p.straight;
    Span entries = part_of(p, p.beat - 2);
    if (s.words) {
        if (p.does & kSends) send(p, hand);
        if (p.does & kVeils) veil_entries(s, part_of(p, p.beat), hand);
        if (p.does & kEntries) settle_entries(s, entries, hand);
    } else {
        Span records = part_of(p, p.beat), words = part_of(p, left_out(Step::Behind) ? p.beat : p.beat - 1);
        bool writes = s.op != kDelete && records.count > 0;
        u64 stores = writes ? pieces_of(s, records.count) : 0, at_once = kPieces * hand.hands;
        u64 rounds = stores > at_once ? (stores + at_once - 1) / at_once : 1, before = writes ? before_in_tile(s, records.first) : 0;
        for (u64 round = 0; round < rounds; round++) {
            if (writes) write_pieces(s, records.first, records.count, before, round * at_once + hand.index, hand.hands);
            // Blocks do the rest at different times, so that it goes among the records and not before them.
            if (round != block % rounds) continue;
            veil_entries(s, records, hand);
            store_words(s, words, hand);
            settle_entries(s, entries, hand);
        }
    }
    // Records before words, veils before words, words before entries: all of them a beat later.
    fence_block_at(Step::Beaten);
}

}  // namespace gphash

// Puts acts in the order of their slots, and hands blocks out in that order: words of a part are near each other then. A thread an
// operation, of which those that act have one.
WK_KERNEL(gphash_arrange, gphash::StraightParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= load(&p.came->acts)) return;
    Act act = load_act(p.decided + i);
    u64 place = load(p.regions + region_of_act(p, act)) + load(p.ranks + i);
    // It has what of its word comes from the key.
    act.word = act.kind == kClear ? kEmpty : act.word | p.table.state_of(0, load(p.blocks + place));
    store_act(p.acts + place, act);
}

// As many blocks as run at the same time, or fewer.
WK_KERNEL(gphash_beat, gphash::BeatParams) {
    using namespace gphash;
    beat(p, Hand{global_index(), global_size()}, block_index());
}

// The part of a beat that crosses the link, where the host stores the words. A few blocks.
WK_KERNEL_OF(gphash_send, gphash::BeatParams, gphash::kSendThreads) {
    using namespace gphash;
    send(p, Hand{global_index(), global_size()});
    fence_block_at(Step::Beaten);
}
