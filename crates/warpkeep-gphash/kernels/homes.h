// Pieces of the image that are each read by one multiprocessor, in this batch and in the next. A GPU keeps translations of host addresses near groups of
// multiprocessors: if all of them read everywhere, each group wants the translations of the whole image, and has most of them no longer; if each reads
// its own pieces, all groups together keep those of a far larger one. An H200 reads rows that are anywhere in 2.5 GiB seven times as fast that way.
#pragma once
#include "regions.h"

namespace gphash {

// Counts of each home.
constexpr u32 kHomeWords = 3;

struct Homes {
    // Counts of all homes, zero before the launch: blocks that have taken a room; groups of 32 that were taken beyond the first of each warp; groups that there
    // are, once it is known.
    u32* counts;
    // Homes: multiprocessors of the device, and piece after piece belongs to one after the other.
    u32 count;
    // Rooms of each, for a block: as many in all as the launch has blocks.
    u32 rooms;
    // Pieces, no more than kWarp for each home; and regions that one has, as a power of two.
    u32 pieces;
    u32 shift;
    // Places of a piece in the list, where it is dealt and not put in order: a piece is a region then, and the count of a region stays one. Otherwise 0.
    u64 hand;
    // Of what is in order so many and more are fetched by everybody.
    u64 below;

    WK_DEVICE u32* taken(u32 home) const { return counts + count + home; }
    WK_DEVICE u32* groups(u32 home) const { return counts + 2 * count + home; }
};

// What is listed for the pieces of a home, one in the hands of each lane, in groups of 32 or fewer.
struct Chores {
    u32 home;
    u32 begin;
    u32 end;
    u32 groups;
    // With those of the lanes before, and in all.
    u32 reached;
    u32 all;

    WK_DEVICE Chores(const Homes& homes, const Regions& regions, u32 which) : home(which), begin(0), end(0) {
        u32 piece = home + lane() * homes.count;
        auto count_of = [&](u32 its) { return load(regions.counts + ((u64)its << homes.shift)); };
        if (piece < homes.pieces && homes.hand) {
            u32 count = count_of(piece);
            begin = piece * (u32)homes.hand;
            end = begin + (count < homes.hand ? count : (u32)homes.hand);
        } else if (piece < homes.pieces) {
            begin = count_of(piece);
            end = piece + 1 < homes.pieces ? count_of(piece + 1) : load(regions.all());
        }
        groups = (end - begin + kWarp - 1) / kWarp;
        reached = sum_to_here(groups);
        all = Warp().shfl(reached, kWarp - 1);
    }
    // The next group, beyond the first ones, which each warp has without asking; at least `all` if there is none.
    WK_DEVICE u32 take(const Homes& homes, u32 warps) const {
        if (all <= warps) return all;
        u32 group = lane() == 0 ? warps + fetch_add(homes.taken(home), 1u) : 0;
        return Warp().shfl(group, 0);
    }
};

// A home that its own warps would have to go round at least once more for, that with the most to do; as many as there are if there is none.
WK_DEVICE u32 busiest(const Homes& homes, u32 warps) {
    u64 most = 0;
    for (u32 home = lane(); home < homes.count; home += kWarp) {
        u32 groups = load<Scope::Device, Order::Relaxed>(homes.groups(home));
        u32 taken = load<Scope::Device, Order::Relaxed>(homes.taken(home)) + warps;
        u64 left = groups > taken ? groups - taken : 0;
        if (left >= warps && (left << 32 | home) > most) most = left << 32 | home;
    }
    for (u32 bits = 1; bits < kWarp; bits *= 2) {
        u64 other = Warp().shfl_xor(most, bits);
        if (other > most) most = other;
    }
    return most ? (u32)most : homes.count;
}

// Goes through what is listed for a room's home, 32 of one piece at a time, with the other warps of that home, and then helps where there is most to do: pieces
// that everybody wants something of. `each` gets the place of the lane, and whether there is anything.
template <class Each> WK_DEVICE void at_home(const Homes& homes, const Regions& regions, const Room& room, Each each) {
    Warp warp;
    u32 warps = homes.rooms * warps_per_block();
    Chores chores(homes, regions, room.home);
    if (room.number == 0 && thread_index() == 0) store<Scope::Device, Order::Relaxed>(homes.groups(room.home), chores.all);
    u32 group = room.number * warps_per_block() + warp_in_block();
    for (;;) {
        while (group >= chores.all) {
            u32 home = busiest(homes, warps);
            if (home == homes.count) return;
            chores = Chores(homes, regions, home);
            group = chores.take(homes, warps);
        }
        u32 whose = popc(warp.ballot(chores.reached <= group));
        u32 before = warp.shfl(chores.reached - chores.groups, whose);
        u32 place = warp.shfl(chores.begin, whose) + (group - before) * kWarp + lane();
        each(place, place < warp.shfl(chores.end, whose));
        group = chores.take(homes, warps);
    }
}

}  // namespace gphash
