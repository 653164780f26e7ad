// The publishing of a large batch, as a pipeline over chunks, so that the link is busy all the time.
//
// Publisher device. Each launch is a pipeline step. Step i
//   1. writes the records of chunk i, in address order, and marks the entries of its keys busy;
//   2. stores the words of chunk i - 1, whose records were written in the step before;
//   3. sets the entries of chunk i - 2, whose words are in the image.
// Effects are sorted by slot: the words of a chunk lie in one range of each level, and those of a warp on few lines.
//
// Publisher host. A word stored over the link costs as much as 60 bytes of a record, and the host's cores are nearer to
// the image. A tail of a record in a tile costs the same once blocks are reused in any order. So the device only
// streams values, in whole lines, and a store list with one item per effect, and the host stores tails and words. Where
// the values come from host memory, the host stores them with the tails, and the device only sends the list.
//   1. Send: a launch streams the records and the list, chunk after chunk. The prefix of the batch is sent by a launch
//      of its own while the other operations are being decided; it reads only what was decided before.
//   2. Mark all entries of the batch busy, meanwhile (gphash_mark_busy).
//   3. The last block to fence its part of a chunk raises the chunk's completion flag.
//   4. The host waits for the flag and for step 2, stores tails and checksums of the chunk, fences, and stores its
//      words, while later chunks are being sent.
//   5. Set the entries of each chunk whose words the host has stored (gphash_set_entries).
// Work in device memory is not in one launch with stores to the link: loads of a multiprocessor with outstanding stores
// to the link take six times as long. It runs at the same time on the other multiprocessors, which are most of them.
// Effects stay in batch order: the host has caches and needs no sort.
//
// Ordering. Within a step nothing is ordered. Each block fences once at the end of its step, or of its part of a chunk,
// so everything in a step is ordered before everything in the next: records before words, busy entries before words,
// words before entries. There are only as many blocks as run at once, so the fences are few.
//
// Crash. Each key has its old item or its new one, as in a batch of one chunk, and no word is in the image without its
// record. Where the host publishes, the record is complete because its value was fenced by the block that wrote it
// before the completion flag that the host has waited for, and its tail, and its value if that came from the host, were
// stored and fenced by the host before any word of the same group.
#pragma once
#include "write/fused.h"

namespace gphash {

// What a launch does in a step, as bits. kSetEntries refers to the chunk of two steps before.
constexpr u64 kSend = 1;
constexpr u64 kMarkBusy = 2;
constexpr u64 kSetEntries = 4;

// Threads of a block of gphash_send.
constexpr u32 kSendThreads = 512;

struct StepParams {
    FusedParams batch;
    u64 step;
    u64 chunks;
    u64 work;
    // Chunks of the prefix, which are sent while the other operations are being decided; 0 if all operations were
    // decided at once.
    u64 prefix_chunks;
    // gphash_send sends the chunks from `step` to before this one.
    u64 send_end;
};

// Adjacent effects.
struct EffectRange {
    u64 first;
    u64 count;
};

// The number of effects before a chunk. Where the host publishes, the last chunk has a quarter of the others' size,
// because nothing is sent while the host stores it. The list of a chunk begins with a whole unit of two words or four
// digests, so chunks begin at a multiple of four.
WK_DEVICE u64 effects_before(const StepParams& p, u64 effects, u64 chunk) {
    if (chunk >= p.chunks) return effects;
    if (!p.batch.mailbox) return effects * chunk / p.chunks;
    u64 prefix_effects = p.prefix_chunks ? load(&p.batch.summary->prefix_effects) & ~3ull : 0;
    if (chunk < p.prefix_chunks) return prefix_effects * chunk / p.prefix_chunks & ~3ull;
    u64 rest = effects - prefix_effects, rest_chunks = p.chunks - p.prefix_chunks;
    return prefix_effects + (4 * rest * (chunk - p.prefix_chunks) / (4 * rest_chunks - 3) & ~3ull);
}

// The effects of a chunk; none if there is no such chunk.
WK_DEVICE EffectRange chunk_range(const StepParams& p, u64 chunk) {
    if (chunk >= p.chunks) return EffectRange{0, 0};
    u64 effects = load(&p.batch.summary->effects), first = effects_before(p, effects, chunk);
    return EffectRange{first, effects_before(p, effects, chunk + 1) - first};
}

// The position of this thread in a grid-stride loop, and its stride.
struct GridStride {
    u64 index;
    u64 threads;
};

WK_DEVICE void mark_entries_busy(const FusedParams& p, const EffectRange& range, const GridStride& grid) {
    for (u64 i = grid.index; i < range.count; i += grid.threads) {
        Effect* effect = p.effects + range.first + i;
        store(&effect->entry, reserve_effect_entry(p, effect));
    }
}

WK_DEVICE void store_words(const FusedParams& p, const EffectRange& range, const GridStride& grid) {
    for (u64 i = grid.index; i < range.count; i += grid.threads) {
        const Effect* effect = p.effects + range.first + i;
        poke(p.table, load(&effect->slot_at), load(&effect->word));
    }
}

// Words of the store list per effect: the offset of its slot, its word, and if the host stores tails the key. In that
// case the first word also has the number of the operation, from which the version follows: slot offsets are multiples
// of 8 and leave enough bits.
WK_DEVICE u32 list_words(const FusedParams& p) { return host_stores_tails(p) ? 2 + p.table.record_key_words() : 2; }

// The first load for a field of the list: the field itself, or the operation whose key it belongs to.
WK_DEVICE u64 list_operand(const FusedParams& p, u64 number, u32 field) {
    const Effect* effect = p.effects + number;
    if (field == 1) return load(&effect->word);
    u64 index = host_stores_tails(p) ? load(&effect->index) : 0;
    return field > 1 ? index
           : host_stores_tails(p) ? load(&effect->slot_at) / 8 << p.index_bits | index
                                  : load(&effect->slot_at);
}

// The second load: the field, given its operand.
WK_DEVICE u64 list_word(const FusedParams& p, u64 operand, u32 field) {
    return field > 1 ? load(p.keys + operand * p.table.key_words() + field - 2) : operand;
}

// Units of the list that a thread has in flight at once.
constexpr u32 kListUnitsInFlight = 4;
// Units in a line of the link.
constexpr u64 kLineUnits = 128 / sizeof(U128);

// Sends the store list of a chunk. Adjacent threads write adjacent bytes, and a warp whole lines.
WK_DEVICE void send_store_list(const FusedParams& p, u64 chunk, const EffectRange& range, const GridStride& grid) {
    if (grid.index == 0) store_streaming(p.mailbox + chunk, U128{range.first, range.count});
    U128* list = p.mailbox + 2 * kMaxChunks;
    u32 len = list_words(p);
    u64 begin = range.first * len / 2, words = (range.first + range.count) * len, last = range.first + range.count - 1;
    for (u64 i = begin / kLineUnits * kLineUnits + grid.index; 2 * i < words; i += kListUnitsInFlight * grid.threads) {
        U128 buffer[kListUnitsInFlight];
        u32 fields[kListUnitsInFlight];
        for (u32 j = 0; j < kListUnitsInFlight; j++) {
            u64 number = 2 * (i + j * grid.threads), effect = divide(number, len);
            fields[j] = (u32)(number - effect * len);
            // The unit behind the last effect is padding.
            if (effect > last) effect = last;
            bool next = fields[j] + 1 == len && effect < last;
            buffer[j].lo = list_operand(p, effect, fields[j]);
            buffer[j].hi = list_operand(p, effect + next, (fields[j] + 1) % len);
        }
        for (u32 j = 0; j < kListUnitsInFlight; j++) {
            buffer[j].lo = list_word(p, buffer[j].lo, fields[j]);
            buffer[j].hi = list_word(p, buffer[j].hi, (fields[j] + 1) % len);
        }
        for (u32 j = 0; j < kListUnitsInFlight; j++) {
            u64 unit = i + j * grid.threads;
            if (unit >= begin && 2 * unit < words) store_streaming(list + unit, buffer[j]);
        }
    }
}

// Digests in a unit.
constexpr u64 kUnitDigests = sizeof(U128) / sizeof(u32);

// Sends the digests of a chunk's values, behind the store list: the host stores the checksums with the tails, and does
// not have the values.
WK_DEVICE void send_digests(const FusedParams& p, const EffectRange& range, const GridStride& grid) {
    if (!p.digests || !host_stores_tails(p) || range.count == 0) return;
    U128* list = p.mailbox + 2 * kMaxChunks + (list_words(p) * p.count + 1) / 2;
    u64 last = range.first + range.count - 1, begin = range.first / kUnitDigests;
    for (u64 i = begin / kLineUnits * kLineUnits + grid.index; kUnitDigests * i <= last; i += grid.threads) {
        if (i < begin) continue;
        u32 indexes[kUnitDigests];
        for (u32 j = 0; j < kUnitDigests; j++) {
            u64 effect = kUnitDigests * i + j;
            indexes[j] = load(&p.effects[effect < last ? effect : last].index);
        }
        u64 digests[kUnitDigests];
        for (u32 j = 0; j < kUnitDigests; j++) digests[j] = load(p.digests + indexes[j]);
        store_streaming(list + i, U128{digests[0] | digests[1] << 32, digests[2] | digests[3] << 32});
    }
}

// Sets the entries of a chunk. All lanes of a warp.
WK_DEVICE void set_entries(const FusedParams& p, const EffectRange& range, const GridStride& grid) {
    for (u64 i = grid.index; i / kWarp * kWarp < range.count; i += grid.threads) {
        bool active = i < range.count;
        Effect effect = active ? load_effect(p.effects + range.first + i) : no_effect();
        complete_effects(p, range.first + i, effect, active, effect.entry);
    }
}

template <Extent E>
WK_DEVICE void send_records(const FusedParams& p, const EffectRange& range, const GridStride& grid) {
    u64 units = unit_count<E>(p, range.count);
    for (u64 i = grid.index; i < units; i += kUnitsInFlight * grid.threads) {
        write_units<E>(p, range.first, range.count, 0, i, grid.threads);
    }
}

// Sends what crosses the link where the host publishes: the records of a chunk, its store list and its digests.
WK_DEVICE void send_chunk(const StepParams& p, u64 chunk, const GridStride& grid) {
    const FusedParams& batch = p.batch;
    // If omitted, the records of a chunk are sent with the words of the next.
    EffectRange records = chunk_range(p, is_omitted(FaultPoint::WordsAStepLater) ? chunk - 1 : chunk);
    // In tiles the host stores the tails always, and the values if they came from the host.
    if (batch.op != kDelete && batch.table.tiled() && batch.values) send_records<Extent::Values>(batch, records, grid);
    if (batch.op != kDelete && !batch.table.tiled()) send_records<Extent::Whole>(batch, records, grid);
    send_store_list(batch, chunk, chunk_range(p, chunk), grid);
    send_digests(batch, chunk_range(p, chunk), grid);
}

// Sends chunks, many in one launch: between launches the link would be idle. The last block to fence its part of a
// chunk raises the completion flag. All threads of a block.
WK_DEVICE void send_chunks(const StepParams& p, const GridStride& grid) {
    const FusedParams& batch = p.batch;
    for (u64 chunk = p.step; chunk < p.send_end; chunk++) {
        send_chunk(p, chunk, grid);
        fence_block_at(FaultPoint::StepEndFence);
        if (thread_index() > 0) continue;
        u64 blocks_before = fetch_add<Scope::Device, Order::AcqRel>(batch.blocks_done + chunk, 1u);
        if (blocks_before + 1 == grid.threads / block_size()) {
            store<Scope::System, Order::Release>(&batch.mailbox[kMaxChunks + chunk].lo, (u64)1);
        }
    }
}

// The work of a block in a pipeline step. All threads of the block.
WK_DEVICE void pipeline_step(const StepParams& p, const GridStride& grid, u64 block) {
    const FusedParams& batch = p.batch;
    EffectRange entries = chunk_range(p, p.step - 2);
    if (batch.mailbox) {
        if (p.work & kSend) send_chunks(p, grid);
        if (p.work & kMarkBusy) mark_entries_busy(batch, chunk_range(p, p.step), grid);
        if (p.work & kSetEntries) set_entries(batch, entries, grid);
    } else {
        EffectRange records = chunk_range(p, p.step);
        EffectRange words = chunk_range(p, is_omitted(FaultPoint::WordsAStepLater) ? p.step : p.step - 1);
        bool writes = batch.op != kDelete && records.count > 0;
        u64 stores = writes ? unit_count<Extent::Whole>(batch, records.count) : 0;
        u64 per_round = kUnitsInFlight * grid.threads;
        u64 rounds = stores > per_round ? (stores + per_round - 1) / per_round : 1;
        u64 before = writes ? before_in_tile(batch, records.first) : 0;
        for (u64 round = 0; round < rounds; round++) {
            u64 first_unit = round * per_round + grid.index;
            if (writes) {
                write_units<Extent::Whole>(batch, records.first, records.count, before, first_unit, grid.threads);
            }
            // Blocks do the other work in different rounds, so that it is spread among the records and not ahead of
            // them.
            if (round != block % rounds) continue;
            mark_entries_busy(batch, records, grid);
            store_words(batch, words, grid);
            set_entries(batch, entries, grid);
        }
    }
    // Orders this step before the next: records before words, busy entries before words, words before entries.
    fence_block_at(FaultPoint::StepEndFence);
}

}  // namespace gphash
