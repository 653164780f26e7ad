// Readers beside whoever publishes, in one launch: for tests on the simulator.
#pragma once
#include "parts.h"
#include "reflect.h"
#include "value_load.h"

namespace gphash {

struct RaceParams {
    GetParams plain;
    GetParams get;
    PublishParams publish;
    FillParams fill;
    // What the CPU has written; or null.
    const TellParams* tell;
    // A beat of a batch that is written straight through, or all of it if it has one part; or null.
    const BeatParams* beat;
    // Readers that have looked at the image, which those of a beat wait for; or null, if they do not wait.
    u64* arrived;
    // Answers from the image, once more; or null.
    u8* statuses_again;
    u64* versions_again;
    u64* values_again;
    // The first so many blocks, of a warp each, read, in the image and then through the mirror; the next so many publish; the next fill rows; the
    // next do a beat; the others tell.
    u64 readers;
    u64 publishers;
    u64 fillers;
    u64 beaters;
    u64 tellers;
};

// How often a small batch pauses, if nobody waits for anybody: until readers have looked at what there is.
constexpr u32 kPauses = 2000;

// Looks 32 keys up, of those that there are.
WK_DEVICE void read_all(const GetParams& p, u64 first) {
    u64 mine = first + lane();
    get_keys(p, first, hash_of_row(p, mine), Warp().ballot(mine < p.count));
}

}  // namespace gphash

// One launch, because two never run at the same time on the simulator.
WK_KERNEL(gphash_race, gphash::RaceParams) {
    using namespace gphash;
    u64 warp = block_index();
    if (warp < p.readers) {
        read_all(p.plain, warp * kWarp);
        if (p.arrived && lane() == 0) fetch_add(p.arrived, (u64)1);
        look_up_or_ask(p.get, warp * kWarp);
        if (p.statuses_again) {
            GetParams again = p.plain;
            again.statuses = p.statuses_again;
            again.versions = p.versions_again;
            again.values = p.values_again;
            read_all(again, warp * kWarp);
        }
    } else if (warp < p.readers + p.publishers) {
        u64 i = (warp - p.readers) * kWarp + lane();
        if (i < p.publish.count) publish_one(p.publish, i);
    } else if (warp < p.readers + p.publishers + p.fillers) {
        fill_rows(p.fill, (warp - p.readers - p.publishers) * kWarp + lane());
    } else if (warp < p.readers + p.publishers + p.fillers + p.beaters) {
        u64 block = warp - p.readers - p.publishers - p.fillers;
        // Somebody has seen in the image what there is, and not yet looked into the mirror.
        while (p.arrived && load<Scope::Device, Order::Acquire>(p.arrived) == 0) backoff(kPauseNanoseconds);
        Warp().sync();
        if (p.beat->parts == 1 && !p.beat->straight.words) finish(p.beat->straight, block, p.arrived ? 0 : kPauses);
        else beat(*p.beat, Hand{block * kWarp + lane(), p.beaters * kWarp}, block);
    } else {
        u64 i = (warp - p.readers - p.publishers - p.fillers - p.beaters) * kWarp + lane();
        if (i < p.tell->count) tell_one(*p.tell, i);
    }
}
