// Slab hash: a hash table of chains of slabs, from u32 to u32, whose keys are unique or not. The host's side is SlabMap, SlabSet and SlabMultiMap of
// warpkeep_containers.
//
// A slab is 64 or 128 bytes: pairs of eight bytes, and a last word that leads to the next slab. A tile with a lane for each word reads it at once. Each
// lane of a tile may have a request; the tile serves them one after the other, and the four or two tiles of a warp take steps together, so that they ask
// for slabs together.
//
// A key goes through a bijection. The lower bits of the result are its bucket, the others are stored; the bits that the bucket saves say what a pair is,
// so that every key can be stored. A word of zero is an empty pair.
//
// What keeps keys unique while everything runs at the same time:
//  - An insertion takes the first empty pair of the chain, by CAS. No pair becomes empty again, so pairs fill in the order of the chain, a key that is
//    there is before the first empty pair, and of two insertions of a key one loses the CAS and finds the other's pair.
//  - A deleted pair keeps its key: a tombstone is taken by its own key only. So a key has one place, until the table is built anew.
//  - Every change is a CAS on the whole pair as it was read. A change that comes between is noticed.
// Where keys need not be unique, an insertion does the same without looking for its key, and a tombstone stays until the table is built anew. Pairs
// of a key are in the order in which they came.
//
// In both kinds a slab is complete before it is linked, with the new pair in it, and links do not change. Who loses the CAS on the link gives its
// slab back.
#pragma once
#include "warpkeep/slab_alloc.h"

namespace wk {

// Those from Count on go through the whole chain: they count the pairs of a key, delete them, or write their values to a list.
enum class SlabOp : u32 { Search, Insert, Replace, Delete, Count, DeleteAll, Gather };

// What a request came to; 0 while it is not done. The upper half of an answer; the lower one is the value that was there, or a count.
enum class SlabStatus : u32 { Pending, Inserted, Updated, Found, Removed, Present, Absent, Full, Counted };

WK_DEVICE constexpr u64 answer_of(SlabStatus status, u32 value = 0) { return (u64)(u32)status << 32 | value; }

// A bijection of keys with a seed: its multiplier is odd and comes with its inverse.
struct KeyMixer {
    u32 seed;
    u32 multiplier;
    u32 inverse;

    static constexpr u32 kOdd = 0x846ca68bu, kOddInverse = 0x43021123u;
    static_assert(kOdd * kOddInverse == 1u, "multiplying by both changes nothing");

    WK_DEVICE u32 mix(u32 key) const {
        u32 x = key ^ seed;
        x = (x ^ x >> 16) * multiplier;
        x = (x ^ x >> 15) * kOdd;
        return x ^ x >> 16;
    }
    WK_DEVICE u32 unmix(u32 mixed) const {
        u32 x = (mixed ^ mixed >> 16) * kOddInverse;
        x = (x ^ x >> 15 ^ x >> 30) * inverse;
        return x ^ x >> 16 ^ seed;
    }
};

// A table, for the parameters of kernels.
struct SlabTableRef {
    // The first slab of each bucket.
    u64* first;
    SlabAllocRef slabs;
    // Lines of counters: pairs, and tombstones.
    u64* counters;
    KeyMixer mixer;
    // There are 2^bits buckets, four at least.
    u32 bits;

    WK_DEVICE u32 buckets() const { return 1u << bits; }
    // The first slab of a bucket.
    template <u32 Words> WK_DEVICE u64* bucket(u32 number) const { return first + (u64)number * Words; }
    // The slab that a last word leads to; null if to none.
    WK_DEVICE u64* following(u64 link) const { return link ? slabs.as<u64>((u32)(link - 1)) : nullptr; }
    // The key of a pair in a bucket.
    WK_DEVICE u32 key(u32 bucket, u32 quotient) const { return mixer.unmix(quotient << bits | bucket); }
};

// A pair in a word: the value, a bit that is set, whether the pair is there or a tombstone, and the upper bits of the mixed key.
struct SlabPair {
    u64 word;

    WK_DEVICE static SlabPair of(u32 quotient, u32 value) { return SlabPair{(u64)quotient << 34 | 3ull << 32 | value}; }
    WK_DEVICE bool is_live() const { return word >> 33 & 1; }
    WK_DEVICE bool has(u32 quotient) const { return word >> 34 == quotient && (word >> 32 & 1); }
    WK_DEVICE u32 quotient() const { return (u32)(word >> 34); }
    WK_DEVICE u32 value() const { return (u32)word; }
    WK_DEVICE SlabPair tombstone() const { return SlabPair{word >> 34 << 34 | 1ull << 32}; }
};

// A warp's view of a table with slabs of this many words, 8 or 16. All lanes of a warp make one and call its functions together. Replace is for
// unique keys.
template <u32 Words, bool Unique> struct SlabTable {
    static constexpr u32 kPairs = Words - 1;

    SlabTableRef table;
    SlabAllocator slabs;
    // What this lane changed.
    u32 live = 0;
    u32 dead = 0;
    // Where Gather writes, from the position on that is the request's value, and how many values fit.
    u32* gathered = nullptr;
    u64 room = 0;

    WK_DEVICE explicit SlabTable(const SlabTableRef& of) : table(of), slabs(of.slabs) {}

    // The answer to the request of this lane, if it has one. Where all requests only read, less is compiled.
    template <bool ReadOnly = false> WK_DEVICE u64 serve(bool wants, SlabOp op, u32 key, u32 value) {
        Tile<Words> tile;
        Warp warp;
        u32 mixed = table.mixer.mix(key), waiting = tile.ballot(wants);
        u64 answer = 0;
        u64* slab = nullptr;
        // What the tile's request has counted so far.
        u32 passed = 0;
        while (warp.any(waiting != 0)) {
            u32 turn = waiting ? ffs(waiting) - 1 : 0;
            u64 done = 0, fresh = 0;
            bool grows = false;
            if (waiting) {
                u32 its = tile.shfl(mixed, turn);
                SlabOp what = (SlabOp)tile.shfl((u32)op, turn);
                fresh = SlabPair::of(its >> table.bits, tile.shfl(value, turn)).word;
                if (!slab) slab = table.bucket<Words>(its & (table.buckets() - 1));
                done = step<ReadOnly>(slab, what, its >> table.bits, fresh, grows, passed);
            }
            if constexpr (!ReadOnly) {
                if (warp.any(grows)) append(slab, fresh, grows, done);
            }
            if (done) {
                if (tile.rank() == turn) answer = done;
                waiting &= waiting - 1;
                slab = nullptr;
                passed = 0;
            }
        }
        return answer;
    }

    // Adds what the warp changed to the counters. Once, in the end.
    WK_DEVICE void count() const {
        u32 more_live = warp_inclusive_sum(live), more_dead = warp_inclusive_sum(dead);
        if (lane() != kWarp - 1) return;
        u64* line = table.counters + global_warp() % kCounterLines * kCounterWords;
        if (more_live) fetch_add(line, (u64)(i64)(i32)more_live);
        if (more_dead) fetch_add(line + 1, (u64)(i64)(i32)more_dead);
    }

private:
    // One look at a slab, by a tile. Gives the answer, moves on to the next slab, asks for one, or is to be called again.
    template <bool ReadOnly> WK_DEVICE u64 step(u64*& slab, SlabOp what, u32 quotient, u64 fresh, bool& grows, u32& passed) {
        Tile<Words> tile;
        bool puts = !ReadOnly && (what == SlabOp::Insert || what == SlabOp::Replace);
        // Not weak: what another tile has changed is to be seen when this one comes again.
        u64 word = load<Scope::Device, Order::Relaxed>(slab + tile.rank());
        bool is_pair = tile.rank() < kPairs;
        u32 hits = tile.ballot(is_pair && SlabPair{word}.has(quotient) && (Unique || SlabPair{word}.is_live()));
        u32 empty = tile.ballot(is_pair && word == 0);
        u64 link = tile.shfl(word, kPairs);
        if (what >= SlabOp::Count) {
            sweep<ReadOnly>(slab, what, hits >> tile.rank() & 1, SlabPair{word}, fresh, passed);
            if (empty || !link) return answer_of(SlabStatus::Counted, passed);
        } else if (hits && (Unique || !puts)) {
            return change<ReadOnly>(slab, what, hits, word, fresh);
        }
        if (empty && what < SlabOp::Count) {
            if (!puts) return answer_of(SlabStatus::Absent);
            if (!swap(slab + ffs(empty) - 1, 0, fresh)) return 0;
            tally(1, 0);
            return answer_of(SlabStatus::Inserted);
        }
        if (link) {
            slab = table.following(link);
            // The lane that read the link orders the reads of the others, who see what was there before it was linked.
            fence();
            tile.sync();
            return 0;
        }
        grows = puts;
        return puts ? 0 : answer_of(SlabStatus::Absent);
    }

    // What is to be done with the pair that has the key.
    template <bool ReadOnly> WK_DEVICE u64 change(u64* slab, SlabOp what, u32 hits, u64 word, u64 fresh) {
        u32 slot = ffs(hits) - 1;
        SlabPair seen{Tile<Words>().shfl(word, slot)};
        if (ReadOnly) return seen.is_live() ? answer_of(SlabStatus::Found, seen.value()) : answer_of(SlabStatus::Absent);
        bool was = seen.is_live(), stays = was;
        u64 wanted = seen.word;
        if (what == SlabOp::Delete && was) {
            wanted = seen.tombstone().word;
            stays = false;
        }
        if (what == SlabOp::Replace || (what == SlabOp::Insert && !was)) {
            wanted = fresh;
            stays = true;
        }
        if (wanted != seen.word && !swap(slab + slot, seen.word, wanted)) return 0;
        if (stays && !was) tally(1, 0u - 1);
        if (was && !stays) tally(0u - 1, 1);
        if (what == SlabOp::Insert || what == SlabOp::Replace) {
            if (!was) return answer_of(SlabStatus::Inserted);
            return answer_of(what == SlabOp::Insert ? SlabStatus::Present : SlabStatus::Updated, seen.value());
        }
        if (!was) return answer_of(SlabStatus::Absent);
        return answer_of(what == SlabOp::Delete ? SlabStatus::Removed : SlabStatus::Found, seen.value());
    }

    // What is to be done with the pairs of a slab that have the key, one a lane.
    template <bool ReadOnly> WK_DEVICE void sweep(u64* slab, SlabOp what, bool hit, SlabPair pair, u64 fresh, u32& passed) {
        Tile<Words> tile;
        bool counts = hit && pair.is_live();
        u32* to = nullptr;
        if (what == SlabOp::Gather) {
            u64 at = (u64)SlabPair{fresh}.value() + passed + popc(tile.ballot(counts) & ((1u << tile.rank()) - 1));
            if (counts && at < room) to = gathered + at;
        }
        if (to) store(to, pair.value());
        bool deletes = !ReadOnly && what == SlabOp::DeleteAll;
        // Whose CAS fails has lost its pair to another deletion, which counts it.
        if (deletes && counts) {
            counts = cas<Scope::Device, Order::Relaxed>(slab + tile.rank(), pair.word, pair.tombstone().word) == pair.word;
        }
        u32 counted = popc(tile.ballot(counts));
        passed += counted;
        if (deletes) tally(0u - counted, counted);
    }

    // A new slab with the pair, behind a slab that is full and the last one, for each tile that grows.
    WK_DEVICE void append(u64*& slab, u64 fresh, bool grows, u64& done) {
        Tile<Words> tile;
        u32 unit = slabs.allocate(grows && tile.rank() == 0);
        bool lost = false;
        if (grows) {
            unit = tile.shfl(unit, 0);
            if (unit == kNoUnit) {
                done = answer_of(SlabStatus::Full);
            } else {
                store(table.slabs.as<u64>(unit) + tile.rank(), tile.rank() == 0 ? fresh : 0);
                // The link releases the words of all lanes.
                if (!WK_FAULT_POINT("slab_hash.slab_before_link")) tile.sync();
                u64 there = 0;
                if (tile.rank() == 0) there = cas<Scope::Device, Order::AcqRel>(slab + kPairs, 0, (u64)unit + 1);
                there = tile.shfl(there, 0);
                tile.sync();
                lost = there != 0;
                if (lost) {
                    slab = table.following(there);
                } else {
                    done = answer_of(SlabStatus::Inserted);
                    tally(1, 0);
                }
            }
        }
        slabs.release(unit, lost && tile.rank() == 0 && !WK_FAULT_POINT("slab_hash.loser_releases"));
    }

    // Changes a pair that is as it was seen; false if it no longer is.
    WK_DEVICE bool swap(u64* pair, u64 seen, u64 wanted) const {
        Tile<Words> tile;
        u64 there = 0;
        if (tile.rank() == 0) {
            if (WK_FAULT_POINT("slab_hash.pair_as_seen")) {
                store<Scope::Device, Order::Relaxed>(pair, wanted);
                there = seen;
            } else {
                there = cas<Scope::Device, Order::Relaxed>(pair, seen, wanted);
            }
        }
        return tile.shfl(there, 0) == seen;
    }

    WK_DEVICE void tally(u32 more_live, u32 more_dead) {
        if (Tile<Words>().rank() != 0) return;
        live += more_live;
        dead += more_dead;
    }
};

// The slabs of a bucket, one after the other, by a tile: the words of each.
template <u32 Words> struct SlabChain {
    u64* slab;

    // The word of this lane, zero beyond the end; then the next slab is the chain's first. No other kernel changes the table.
    WK_DEVICE u64 next(const SlabTableRef& table) {
        if (!slab) return 0;
        Tile<Words> tile;
        u64 word = load(slab + tile.rank());
        slab = table.following(tile.shfl(word, Words - 1));
        return tile.rank() < Words - 1 ? word : 0;
    }
};

// Packs the pairs of a bucket at the beginning of its chain, in their order, and gives the slabs behind them back. All lanes of a warp take part, a
// tile for each bucket; a tile that has none gives null. No other kernel changes the table. Needs no memory.
template <u32 Words> WK_DEVICE void flush_chain(SlabTable<Words, false>& table, u64* first) {
    constexpr u32 kPairs = Words - 1;
    Tile<Words> tile;
    u64 *from = first, *to = first, rest = 0;
    u32 filled = 0;
    while (from) {
        u64 word = load(from + tile.rank()), link = tile.shfl(word, kPairs);
        SlabPair pair{tile.rank() < kPairs ? word : 0};
        u32 live = tile.ballot(pair.is_live()), dead = tile.ballot(pair.word != 0 && !pair.is_live());
        // What is written never lies behind what was read: the slab itself at most, which all lanes have read then.
        tile.sync();
        u64* after = table.table.following(load(to + kPairs));
        u32 at = filled + popc(live & ((1u << tile.rank()) - 1));
        if (pair.is_live()) store(at < kPairs ? to + at : after + (at - kPairs), word);
        filled += popc(live);
        if (filled > kPairs) {
            to = after;
            filled -= kPairs;
        }
        if (tile.rank() == 0) table.dead -= popc(dead);
        from = table.table.following(link);
    }
    if (first) {
        rest = load(to + kPairs);
        tile.sync();
        // A lane each for the places that are left, and for the link.
        if (tile.rank() >= filled) store(to + tile.rank(), 0);
    }
    while (Warp().any(rest != 0)) {
        u64 next = rest ? load(table.table.following(rest) + kPairs) : 0;
        tile.sync();
        table.slabs.release((u32)(rest - 1), rest != 0 && tile.rank() == 0);
        rest = next;
    }
}

}  // namespace wk
