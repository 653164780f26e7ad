// Readers and writers in one launch, for tests on the simulator, which never runs two launches at a time.
//
// Blocks of one warp each are assigned to readers, publishers, fillers of the value cache, pipeline steps and appliers
// of CPU changes. The scheduler interleaves them, and the test checks every result.
#pragma once
#include "write/pipeline.h"
#include "index/build.h"
#include "value_cache/load.h"

namespace gphash {

struct RaceParams {
    GetParams image_get;
    GetParams index_get;
    PublishParams publish;
    FillParams fill;
    // Changes made by the CPU; or null.
    const ApplyParams* apply;
    // A pipeline step of a fused write, or the whole batch if it has one chunk; or null.
    const StepParams* step;
    // Counts readers that have read the image. The warps of a pipeline step wait for the first one; null if they do not
    // wait.
    u64* readers_done;
    // Results of a second read of the image; or null.
    u8* second_statuses;
    u64* second_versions;
    u64* second_values;
    // Blocks of each kind, in this order. Readers read the image and then the index.
    u64 readers;
    u64 publishers;
    u64 fillers;
    u64 steppers;
    u64 appliers;
};

// Pauses of a small batch before it sets entries, where it does not wait for readers: enough for them to read
// meanwhile.
constexpr u32 kTestPauses = 2000;

// Gets 32 keys from the image.
WK_DEVICE void get_warp(const GetParams& p, u64 first) {
    u64 own_index = first + lane();
    get_keys(p, first, hash_of_row(p, own_index), Warp().ballot(own_index < p.count));
}

}  // namespace gphash

WK_KERNEL(gphash_race, gphash::RaceParams) {
    using namespace gphash;
    u64 warp = block_index();
    if (warp < p.readers) {
        get_warp(p.image_get, warp * kWarp);
        if (p.readers_done && lane() == 0) fetch_add(p.readers_done, (u64)1);
        get_or_fall_back(p.index_get, warp * kWarp);
        if (p.second_statuses) {
            GetParams second = p.image_get;
            second.statuses = p.second_statuses;
            second.versions = p.second_versions;
            second.values = p.second_values;
            get_warp(second, warp * kWarp);
        }
    } else if (warp < p.readers + p.publishers) {
        u64 i = (warp - p.readers) * kWarp + lane();
        if (i < p.publish.count) publish_one(p.publish, i);
    } else if (warp < p.readers + p.publishers + p.fillers) {
        fill_rows(p.fill, (warp - p.readers - p.publishers) * kWarp + lane());
    } else if (warp < p.readers + p.publishers + p.fillers + p.steppers) {
        u64 block = warp - p.readers - p.publishers - p.fillers;
        // Continue when a reader has read the image and not yet the index.
        while (p.readers_done && load<Scope::Device, Order::Acquire>(p.readers_done) == 0) backoff(kBackoffNanoseconds);
        Warp().sync();
        if (p.step->chunks == 1 && !p.step->batch.mailbox) {
            write_and_publish(p.step->batch, block, p.readers_done ? 0 : kTestPauses);
        } else {
            pipeline_step(*p.step, GridStride{block * kWarp + lane(), p.steppers * kWarp}, block);
        }
    } else {
        u64 i = (warp - p.readers - p.publishers - p.fillers - p.steppers) * kWarp + lane();
        if (i < p.apply->count) apply_change(*p.apply, i);
    }
}
