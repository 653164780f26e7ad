// A large batch in parts, so that the link has something to carry all the time: while the records of one part go, in the order of their
// addresses, the words of the part before go, here and there in the index. A launch is a beat. In beat i
//   - records of part i are written, and the entries of its keys veiled;
//   - words of part i - 1 are stored, which lead to records of the beat before;
//   - entries of part i - 2 are set, whose words are in the image.
//
// The words can be the host's to store, whose cores are nearer to the index than the device: one at a time they cost the link as much as
// 60 bytes of a record. So do tails of records in tiles, which lie anywhere once blocks are used again; then those are the host's, too, and
// the device writes nothing to the image but values, in whole lines; and nothing at all where values come from host memory, for then the host
// stores them with the tails. What the host needs to know goes to it in a list, one act after the
// other. Part after part is sent, records and list; the first of them by a launch of its own while the rest of the batch is decided, in which
// nothing of them is read but what was decided before. All entries are veiled meanwhile; then the host waits for each part, and stores its tails and
// words while the next ones go. When it has stored those of a part, its entries are set. What is done in device memory is not in a launch with
// what crosses the link: what a multiprocessor loads waits behind what it has stored to the link, six times as long as otherwise. It is
// beside it, on the multiprocessors that send nothing, which are most of them.
//
// Within a beat nothing has an order. From one to the next everything has: each block fences when it has stored what it stores, once, or once
// a part, for there are only as many blocks as run at the same time.
//
// Where the device stores words, acts are in the order of their slots: the words of a part lie in one stretch of each level, and those of a
// warp on few lines. The host has caches, and no need for it.
//
// A crash finds each key with what it had or with what it was to have, as in a batch of one part; and words of a part, but never one
// whose record is not there. The host stores a word when the record is whole: its value was fenced by the block that wrote it, and the last
// block to have done that with the part has told the host, which has waited for it; its tail, and
// its value where that never was the device's, the host has stored and fenced itself, with those of other acts, before any of their words.
#pragma once
#include "straight.h"

namespace gphash {

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
    // Of the parts, those that have what was decided before the rest: they are sent while the rest is decided. 0 if all was decided at once.
    u64 early;
    // What is sent: parts from `beat` on, to this one.
    u64 until;
};

// Acts side by side.
struct Span {
    u64 first;
    u64 count;
};

// Acts before a part. Where the host stores the words, the last part has a quarter of what the others have: what it stores of that one
// goes beside nothing. The list of a part begins with a whole piece, of two words or four digests, so parts begin at a multiple of four.
WK_DEVICE u64 before_part(const BeatParams& p, u64 acts, u64 part) {
    if (part >= p.parts) return acts;
    if (!p.straight.words) return acts * part / p.parts;
    u64 early = p.early ? load(&p.straight.came->early) & ~3ull : 0;
    if (part < p.early) return early * part / p.early & ~3ull;
    return early + (4 * (acts - early) * (part - p.early) / (4 * (p.parts - p.early) - 3) & ~3ull);
}

// The acts of a part; none if there is no such part.
WK_DEVICE Span part_of(const BeatParams& p, u64 part) {
    if (part >= p.parts) return Span{0, 0};
    u64 acts = load(&p.straight.came->acts), first = before_part(p, acts, part);
    return Span{first, before_part(p, acts, part + 1) - first};
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

// Words that the host is told of an act: where its word goes, and which; and if the host stores the tail, the key. Then the first of
// them tells the operation, too, from which the version follows: slots lie at multiples of 8 bytes, and in the bits that are left there is room.
WK_DEVICE u32 told_len(const StraightParams& p) { return tells_tails(p) ? 2 + p.table.record_key_words() : 2; }

// What is loaded first for a word of the list: it, or the index of the operation whose key it is of.
WK_DEVICE u64 told_of_act(const StraightParams& p, u64 act, u32 which) {
    const Act* its = p.acts + act;
    if (which == 1) return load(&its->word);
    u64 index = tells_tails(p) ? load(&its->index) : 0;
    return which > 1 ? index : tells_tails(p) ? load(&its->at) / 8 << p.index_bits | index : load(&its->at);
}

// The word, then.
WK_DEVICE u64 told_word(const StraightParams& p, u64 of_act, u32 which) {
    return which > 1 ? load(p.keys + of_act * p.table.key_words() + which - 2) : of_act;
}

// Pieces of the list that a thread has under way at once.
constexpr u32 kTold = 4;
// Pieces in a line of the link.
constexpr u64 kLinePieces = 128 / sizeof(U128);

// Tells the host of the acts of a part. Neighbours write neighbouring bytes, and a warp whole lines.
WK_DEVICE void tell_acts(const StraightParams& p, u64 part, const Span& span, const Hand& hand) {
    if (hand.index == 0) store_streaming(p.words + part, U128{span.first, span.count});
    U128* list = p.words + 2 * kMostParts;
    u32 len = told_len(p);
    u64 begin = span.first * len / 2, words = (span.first + span.count) * len, last = span.first + span.count - 1;
    for (u64 i = begin / kLinePieces * kLinePieces + hand.index; 2 * i < words; i += kTold * hand.hands) {
        U128 told[kTold];
        u32 which[kTold];
        for (u32 j = 0; j < kTold; j++) {
            u64 number = 2 * (i + j * hand.hands), act = divided(number, len);
            which[j] = (u32)(number - act * len);
            // What is behind the last act is nobody's.
            if (act > last) act = last;
            bool next = which[j] + 1 == len && act < last;
            told[j].lo = told_of_act(p, act, which[j]);
            told[j].hi = told_of_act(p, act + next, (which[j] + 1) % len);
        }
        for (u32 j = 0; j < kTold; j++) {
            told[j].lo = told_word(p, told[j].lo, which[j]);
            told[j].hi = told_word(p, told[j].hi, (which[j] + 1) % len);
        }
        for (u32 j = 0; j < kTold; j++) {
            u64 piece = i + j * hand.hands;
            if (piece >= begin && 2 * piece < words) store_streaming(list + piece, told[j]);
        }
    }
}

// Digests in a piece of the list.
constexpr u64 kPieceDigests = sizeof(U128) / sizeof(u32);

// Sends the digests of a part's values to the host, behind the list of acts: the host thread that stores the tails also stores the checksums, and
// does not have the values.
WK_DEVICE void tell_digests(const StraightParams& p, const Span& span, const Hand& hand) {
    if (!p.digests || !tells_tails(p) || span.count == 0) return;
    U128* list = p.words + 2 * kMostParts + (told_len(p) * p.count + 1) / 2;
    u64 last = span.first + span.count - 1, begin = span.first / kPieceDigests;
    for (u64 i = begin / kLinePieces * kLinePieces + hand.index; kPieceDigests * i <= last; i += hand.hands) {
        if (i < begin) continue;
        u32 indexes[kPieceDigests];
        for (u32 j = 0; j < kPieceDigests; j++) {
            u64 act = kPieceDigests * i + j;
            indexes[j] = load(&p.acts[act < last ? act : last].index);
        }
        u64 digests[kPieceDigests];
        for (u32 j = 0; j < kPieceDigests; j++) digests[j] = load(p.digests + indexes[j]);
        store_streaming(list + i, U128{digests[0] | digests[1] << 32, digests[2] | digests[3] << 32});
    }
}

// All lanes of a warp.
WK_DEVICE void settle_entries(const StraightParams& p, const Span& span, const Hand& hand) {
    for (u64 i = hand.index; i / kWarp * kWarp < span.count; i += hand.hands) {
        bool mine = i < span.count;
        Act act = mine ? load_act(p.acts + span.first + i) : no_act();
        settle_act(p, span.first + i, act, mine, act.entry);
    }
}

template <Extent E> WK_DEVICE void send_records(const StraightParams& p, const Span& span, const Hand& hand) {
    u64 pieces = pieces_of<E>(p, span.count);
    for (u64 i = hand.index; i < pieces; i += kPieces * hand.hands) write_pieces<E>(p, span.first, span.count, 0, i, hand.hands);
}

// What crosses the link where the host stores the words: the records of a part, and what the host is told of it.
WK_DEVICE void send_part(const BeatParams& p, u64 part, const Hand& hand) {
    const StraightParams& s = p.straight;
    // Left out, records come with the words of the part after theirs.
    Span records = part_of(p, left_out(Step::Behind) ? part - 1 : part);
    // Of records in tiles the host stores the tails, always; and the values, where they are its own.
    if (s.op != kDelete && s.table.tiled() && s.values) send_records<Extent::Values>(s, records, hand);
    if (s.op != kDelete && !s.table.tiled()) send_records<Extent::Whole>(s, records, hand);
    tell_acts(s, part, part_of(p, part), hand);
    tell_digests(s, part_of(p, part), hand);
}

// Part after part, many in one launch: from one to the next a launch would let the link run dry. The last block to have fenced its share of a part
// tells the host that it is there. All threads of a block.
WK_DEVICE void send(const BeatParams& p, const Hand& hand) {
    const StraightParams& s = p.straight;
    for (u64 part = p.beat; part < p.until; part++) {
        send_part(p, part, hand);
        fence_block_at(Step::Beaten);
        if (thread_index() > 0) continue;
        u64 before = fetch_add<Scope::Device, Order::AcqRel>(s.sent + part, 1u);
        if (before + 1 == hand.hands / block_size()) store<Scope::System, Order::Release>(&s.words[kMostParts + part].lo, (u64)1);
    }
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
        u64 stores = writes ? pieces_of<Extent::Whole>(s, records.count) : 0, at_once = kPieces * hand.hands;
        u64 rounds = stores > at_once ? (stores + at_once - 1) / at_once : 1, before = writes ? before_in_tile(s, records.first) : 0;
        for (u64 round = 0; round < rounds; round++) {
            if (writes) write_pieces<Extent::Whole>(s, records.first, records.count, before, round * at_once + hand.index, hand.hands);
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
