// A cuckoo index from 64-bit hashes of keys to 32-bit locations: what kernels need to use one. The host's side is warpkeep_containers::CuckooIndex.
//
//     struct Params { wk::CuckooIndexRef index; const wk::u64* hashes; wk::u32* rows; wk::u64 count; };
//     WK_KERNEL(first_row, Params) {
//         wk::u64 i = wk::global_index();
//         if (i < p.count) wk::store(p.rows + i, p.index.search(wk::load(p.hashes + i)).locations[0]);
//     }
//
// There are 2^k buckets of eight cells, 64 bytes. The upper half of a hash is its signature; its low k bits number one of its two buckets, and the other
// differs by bits that follow from the signature, so each follows from the other and the cell. A cell has the signature in its low half and the location,
// one more than it is, in its upper half: an empty cell is zero, and every signature can be stored. A cell is read and written as one word, so no reader
// pairs a signature with another's location.
//
// An entry is a signature, two buckets and a location. Hashes that agree in the first two cannot be told apart: a search gives the locations of all, and
// the caller compares the keys there. The same entry may be there more than once.
//
// What may run at the same time, in one kernel or in several: search, insert, replace and erase, all with each other. None of them moves an entry, so a
// search finds each one that is there all the while. Nothing here while a call of the host changes the index.
#pragma once
#include "warpkeep/append.h"
#include "warpkeep/coop_read.h"
#include "warpkeep/fault_point.h"

namespace wk {

// Cells of a bucket.
constexpr u32 kIndexCells = 8;
// An index has 2^k buckets, and k is one of these and of the numbers between.
constexpr u32 kIndexLeastBits = 1;
constexpr u32 kIndexMostBits = 30;
// No location: the one number that cannot be stored.
constexpr u32 kNoLocation = ~0u;
// What signatures are multiplied by: 2^64 over the golden ratio.
constexpr u64 kIndexSpread = 0x9E3779B97F4A7C15ull;
// A cell that holds no entry and is kept for one that is on its way.
constexpr u64 kIndexReserved = 1;

// What came of an operation.
enum class IndexStatus : u8 {
    // There is an entry more.
    Inserted = 1,
    // The entry with the old location has the new one.
    Replaced = 2,
    // One or two entries match.
    Found = 3,
    // None does.
    Absent = 4,
    // The entry was there, and is there once less.
    Deleted = 5,
    // There is no cell for the entry, and it was not added.
    Full = 6,
    // There is an entry more, and others went to their other buckets for it.
    Displaced = 7,
    // More than two entries match, and the two lowest locations are given.
    Truncated = 8,
    // The location cannot be stored, and nothing was changed.
    BadLocation = 9,
};

enum class IndexOp : u8 { Insert = 0, Replace = 1, Delete = 2, Search = 3 };

// The entries that match a hash: how many there are, and the lowest two locations. Without an entry a location is kNoLocation.
struct IndexMatches {
    u32 count;
    u32 locations[2];

    static WK_DEVICE IndexMatches none() { return IndexMatches{0, {kNoLocation, kNoLocation}}; }

    WK_DEVICE void add(u32 location) {
        count++;
        u32 low = location < locations[0] ? location : locations[0];
        u32 high = location < locations[0] ? locations[0] : location;
        locations[0] = low;
        locations[1] = high < locations[1] ? high : locations[1];
    }

    WK_DEVICE IndexStatus status() const {
        return count == 0 ? IndexStatus::Absent : count <= 2 ? IndexStatus::Found : IndexStatus::Truncated;
    }
    // Both locations in one word, the lowest one in its low half.
    WK_DEVICE u64 packed() const { return locations[0] | (u64)locations[1] << 32; }
};

// An index in device memory: plain data, to be a part of a kernel's parameters.
struct CuckooIndexRef {
    // Cells of a bucket follow each other, and buckets do.
    u64* cells;
    // The number of entries, a SpreadCount, and words of the host's behind it.
    u64* control;
    // The number of buckets, less one.
    u64 mask;

    // What is the same for all hashes that cannot be told apart.
    struct Group {
        u32 signature;
        u64 first;
        u64 second;
    };

    WK_DEVICE SpreadCount length() const { return SpreadCount{control}; }

    static WK_DEVICE u32 signature(u64 hash) { return (u32)(hash >> 32); }
    // The other bucket of an entry that has this one. Odd, so that it is another.
    WK_DEVICE u64 partner(u32 signature, u64 bucket) const { return bucket ^ ((signature * kIndexSpread >> 32 | 1) & mask); }

    WK_DEVICE Group group(u64 hash) const { return group_in(signature(hash), hash & mask); }
    WK_DEVICE Group group_in(u32 signature, u64 bucket) const { return Group{signature, bucket, partner(signature, bucket)}; }
    // A number of the group, by which batches are sorted: neighbours have neighbouring buckets.
    WK_DEVICE u64 number(const Group& group) const {
        return (group.first < group.second ? group.first : group.second) << 32 | group.signature;
    }
    WK_DEVICE Group group_of_number(u64 number) const { return group_in((u32)number, number >> 32); }

    WK_DEVICE u64* bucket(u64 number) const { return cells + number * kIndexCells; }

    static WK_DEVICE bool is_held(u64 cell) { return cell >> 32 != 0; }
    static WK_DEVICE u64 cell_of(u32 signature, u32 location) { return signature | ((u64)location + 1) << 32; }
    static WK_DEVICE u32 location_in(u64 cell) { return (u32)(cell >> 32) - 1; }
    static WK_DEVICE bool matches(u64 cell, u32 signature) { return is_held(cell) && (u32)cell == signature; }

    // A bucket as it was read, two cells in each part.
    struct Bucket {
        U128 parts[kIndexCells / 2];

        WK_DEVICE u64 cell(u32 i) const { return i & 1 ? parts[i / 2].hi : parts[i / 2].lo; }
        // The cells that are empty, one bit each.
        WK_DEVICE u32 free() const { return equal(0); }
        // The cells that have this, one bit each.
        WK_DEVICE u32 equal(u64 wanted) const {
            u32 bits = 0;
            for (u32 i = 0; i < kIndexCells; i++) bits |= (u32)(cell(i) == wanted) << i;
            return bits;
        }
        WK_DEVICE void add_matches(u32 signature, IndexMatches& found) const {
            for (u32 i = 0; i < kIndexCells; i++) {
                if (matches(cell(i), signature)) found.add(location_in(cell(i)));
            }
        }
    };

    WK_DEVICE Bucket read(u64 number) const {
        const U128* first = (const U128*)bucket(number);
        Bucket bucket;
        for (u32 i = 0; i < kIndexCells / 2; i++) bucket.parts[i] = load<Scope::Device, Order::Relaxed>(first + i);
        return bucket;
    }

    // The entries that match, for one thread.
    WK_DEVICE IndexMatches search(u64 hash) const { return search(group(hash)); }
    WK_DEVICE IndexMatches search(const Group& group) const {
        IndexMatches found = IndexMatches::none();
        read(group.first).add_matches(group.signature, found);
        read(group.second).add_matches(group.signature, found);
        return found;
    }

    // The same for eight neighbouring lanes with one hash, each of which reads a cell of both buckets.
    WK_DEVICE IndexMatches search_by_tile(u64 hash) const {
        Tile<kIndexCells> tile;
        Group its = group(hash);
        IndexMatches found = IndexMatches::none();
        u64 one = load<Scope::Device, Order::Relaxed>(bucket(its.first) + tile.rank());
        u64 other = load<Scope::Device, Order::Relaxed>(bucket(its.second) + tile.rank());
        if (matches(one, its.signature)) found.add(location_in(one));
        if (matches(other, its.signature)) found.add(location_in(other));
        for (u32 bits = 1; bits < kIndexCells; bits <<= 1) {
            u32 count = tile.shfl_xor(found.count, bits);
            u32 low = tile.shfl_xor(found.locations[0], bits), high = tile.shfl_xor(found.locations[1], bits);
            count += found.count;
            found.add(low);
            found.add(high);
            found.count = count;
        }
        return found;
    }

    // Adds an entry, if one of its buckets has an empty cell. Full if none has: the host moves others.
    WK_DEVICE IndexStatus insert(u64 hash, u32 location) const {
        if (location == kNoLocation) return IndexStatus::BadLocation;
        if (!claim(group(hash), location)) return IndexStatus::Full;
        length().add(1);
        return IndexStatus::Inserted;
    }

    // Gives an entry another location; adds one with the new location if there is none with the old one.
    WK_DEVICE IndexStatus replace(u64 hash, u32 old, u32 location) const {
        if (location == kNoLocation) return IndexStatus::BadLocation;
        if (change(group(hash), old, cell_of(signature(hash), location))) return IndexStatus::Replaced;
        return insert(hash, location);
    }

    // Removes one entry.
    WK_DEVICE IndexStatus erase(u64 hash, u32 location) const {
        if (!change(group(hash), location, 0)) return IndexStatus::Absent;
        length().add(~0ull);
        return IndexStatus::Deleted;
    }

    // Writes to the cell of one entry, if it is there.
    WK_DEVICE bool change(const Group& group, u32 location, u64 next) const {
        u64 wanted = cell_of(group.signature, location);
        return change_of(group, location, next, read(group.first).equal(wanted), read(group.second).equal(wanted));
    }

    // The same for a thread that knows which cells of the buckets had the entry.
    WK_DEVICE bool change_of(const Group& group, u32 location, u64 next, u32 first, u32 other) const {
        if (location == kNoLocation) return false;
        u64 wanted = cell_of(group.signature, location);
        for (u32 had = first | other << kIndexCells; had; had &= had - 1) {
            u32 which = ffs(had) - 1;
            u64* at = bucket(which < kIndexCells ? group.first : group.second) + which % kIndexCells;
            if (WK_FAULT_POINT("cuckoo_index.change")) {
                store<Scope::Device, Order::Relaxed>(at, next);
                return true;
            }
            // Another thread may have the same entry removed: then there may be a second one.
            if (cas<Scope::Device, Order::Relaxed>(at, wanted, next) == wanted) return true;
        }
        return false;
    }

    // Takes an empty cell of the emptier bucket, the nearest to the left of the preferred one, so that threads with different signatures seldom meet.
    WK_DEVICE bool claim(const Group& group, u32 location) const {
        return claim_of(group, location, read(group.first).free(), read(group.second).free());
    }

    // The same for a thread that knows which cells of the buckets were empty. An empty cell may have been taken meanwhile; no other became empty.
    WK_DEVICE bool claim_of(const Group& group, u32 location, u32 first, u32 other) const {
        u64 cell = cell_of(group.signature, location);
        u32 free[2] = {first, other};
        while (free[0] | free[1]) {
            bool second = popc(free[1]) > popc(free[0]);
            u32 at = nearest(second ? free[1] : free[0], preferred(group.signature));
            if (take(bucket(second ? group.second : group.first) + at, cell)) return true;
            free[second] &= ~(1u << at);
        }
        return false;
    }

    static WK_DEVICE u32 preferred(u32 signature) { return signature >> 29; }

    // The cell of a set, one bit each, that is the first to the left of this one, which may be in the set. From the first cell on it goes on with the last.
    static WK_DEVICE u32 nearest(u32 set, u32 from) {
        u32 turned = (set << 8 | set) >> (from + 1) & 0xff;
        return (from + 32 - clz(turned)) % kIndexCells;
    }

    // Writes to a cell if it is empty.
    static WK_DEVICE bool take(u64* at, u64 cell) {
        if (WK_FAULT_POINT("cuckoo_index.take")) {
            store<Scope::Device, Order::Relaxed>(at, cell);
            return true;
        }
        return cas<Scope::Device, Order::Relaxed>(at, 0, cell) == 0;
    }
};

}  // namespace wk
