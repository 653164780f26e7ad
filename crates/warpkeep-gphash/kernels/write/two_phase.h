// Writes in two phases, for batches of mixed operations, with the log between the phases.
//
//   1. Stage (gphash_stage): decides each operation, claims slots and writes records. Claimed slots and unreferenced
//      records are invisible to readers.
//   2. The host reads the decisions and logs them.
//   3. Publish (gphash_publish): stores one word per change, and updates the device index. gphash_abandon releases the
//      claimed slots instead.
//
// Ordering. A fence at the end of (1) orders records and slots before the words of (3). For the order of words and
// index entries in (3) see index/device_index.h. A crash before (3) leaves claimed slots, which the next opening
// empties, and blocks that no word refers to, which marking finds.
//
// Keys that occur several times in the batch are left to the CPU: see duplicate_plan.h.
#pragma once
#include "cells.h"
#include "checksum.h"
#include "claim.h"
#include "read/get.h"
#include "index/device_index.h"
#include "write/duplicate_plan.h"

namespace gphash {

// Operation codes of warpkeep-core.
enum Op : u8 {
    kGet = 1,
    kPut = 2,
    kInsertOp = 3,
    kUpdate = 4,
    kDelete = 5,
    kCompareAndSwap = 6,
    kFetchAdd = 7,
    kMerge = 8
};

// Codes of merge rules.
enum Rule : u32 { kNoRule = 0, kReplace = 1, kAddU64 = 2, kMaxU64 = 3, kMinU64 = 4, kAddF32 = 5, kAddF64 = 6, kOr = 7 };

// What a change does to its slot.
enum Kind : u32 { kNone = 0, kFill = 1, kReplaceWord = 2, kClear = 3 };
constexpr u32 kKindMask = 0xff;
// Flag: the item was in the overflow.
constexpr u32 kInOverflow = 0x100;
// Flag: the block of the operation holds a record now.
constexpr u32 kBlockUsed = 0x200;

// A staged change: the word to store, its offset, and the record that it replaces.
struct Pending {
    u64 word_at;
    u64 word;
    u64 old_record;
    u32 flags;
    u32 reserved;
};

struct StageParams {
    Table table;
    u64 count;
    // Columns of the batch. No two operations that are not fallbacks have the same key. Keys and values are rows of
    // whole words. Values and arguments may be null if no operation takes one.
    const u8* ops;
    const u64* keys;
    const u64* values;
    const u64* arguments;
    // A free block of the heap per operation, if items have records.
    const u64* blocks;
    // Operation i writes this version plus i.
    u64 first_version;
    // Results: statuses, versions, and values of gets and fetch-adds.
    u8* statuses;
    u64* versions;
    u64* answers;
    Pending* pending;
    // Not 0 for operations that are left to the CPU; or null.
    const u32* is_fallback;
};

WK_DEVICE u64 add_f32(u64 a, u64 b) {
    union Half {
        u32 bits;
        float number;
    };
    Half al{(u32)a}, ah{(u32)(a >> 32)}, bl{(u32)b}, bh{(u32)(b >> 32)}, low, high;
    low.number = al.number + bl.number;
    high.number = ah.number + bh.number;
    return (u64)high.bits << 32 | low.bits;
}

WK_DEVICE u64 add_f64(u64 a, u64 b) {
    union Whole {
        u64 bits;
        double number;
    };
    Whole x{a}, y{b}, sum;
    sum.number = x.number + y.number;
    return sum.bits;
}

WK_DEVICE u64 merge_word(u32 rule, u64 stored, u64 operand) {
    switch (rule) {
    case kAddU64: return stored + operand;
    case kMaxU64: return stored > operand ? stored : operand;
    case kMinU64: return stored < operand ? stored : operand;
    case kAddF32: return add_f32(stored, operand);
    case kAddF64: return add_f64(stored, operand);
    case kOr: return stored | operand;
    default: return operand;
    }
}

// An operation, which all lanes of a warp work on.
struct Operation {
    const StageParams* p;
    u64 index;
    u8 op;
    u64 argument;
    Item item;

    WK_DEVICE u64 stored_word(u32 i) const {
        const Table& t = p->table;
        return t.body() == kInline ? item.word : record_word(t, item.value_at + 8 * i);
    }

    // Word i of the new value.
    WK_DEVICE u64 value_word(u32 i) const {
        const Table& t = p->table;
        if (op == kFetchAdd) return (item.exists ? stored_word(i) : 0) + argument;
        u64 operand = load(p->values + index * t.value_words() + i);
        return op == kMerge && item.exists ? merge_word(t.merge_rule, stored_word(i), operand) : operand;
    }
};

// The status of an operation, and whether it changes the table.
struct Decision {
    u8 status;
    bool writes;
};

// Whether the batch has the columns that the operation takes. The host has not checked operations that come from device
// memory.
WK_DEVICE bool has_columns(const StageParams& p, u8 op) {
    bool takes_value = op == kPut || op == kInsertOp || op == kUpdate || op == kCompareAndSwap || op == kMerge;
    bool takes_argument = op == kCompareAndSwap || op == kFetchAdd;
    return op >= kGet && op <= kMerge &&
           (p.values || !takes_value || p.table.value_len() == 0) && (p.arguments || !takes_argument);
}

WK_DEVICE Decision decide(const Operation& operation) {
    const Table& t = operation.p->table;
    bool exists = operation.item.exists;
    if (!has_columns(*operation.p, operation.op)) return Decision{kMalformed, false};
    switch (operation.op) {
    case kGet: return Decision{(u8)(exists ? kOk : kNotFound), false};
    case kInsertOp:
        if (exists) return Decision{kAlreadyExists, false};
        break;
    case kUpdate:
    case kDelete:
        if (!exists) return Decision{kNotFound, false};
        break;
    case kCompareAndSwap:
        if (!exists) return Decision{kNotFound, false};
        if (operation.item.version != operation.argument) return Decision{kVersionMismatch, false};
        break;
    case kFetchAdd:
        if (t.value_len() != 8) return Decision{kWrongType, false};
        break;
    case kMerge:
        if (t.merge_rule == kNoRule) return Decision{kWrongType, false};
        break;
    default: break;
    }
    return Decision{(u8)(exists ? kOk : kCreated), true};
}

// Writes the record of the new item into the operation's block, by all lanes of a warp; returns its offset.
WK_DEVICE u64 write_record(const Operation& operation, const Key& key, u64 version) {
    const Table& t = operation.p->table;
    u64 block = load(operation.p->blocks + operation.index);
    u32 values = t.value_words(), keys = t.record_key_words();
    u64 sum = 0;
    for (u32 i = lane(); i < values + keys + 1; i += kWarp) {
        u64 word = i < values ? operation.value_word(i) : i < values + keys ? key.word(i - values) : version;
        if (t.checksums() && i < values) sum += value_term(t, i, word);
        poke(t, t.word_at(block, i), word);
    }
    if (t.checksums() && !is_omitted(FaultPoint::RecordChecksum)) {
        u32 digest = digest_of_sum(sum_over_lanes(sum, kWarp));
        if (lane() == 0) poke(t, t.version_at(block) + 8, checksum(t, digest, key, version));
    }
    return block;
}

// Stages a new value for a key that exists: everything except the commit word.
WK_DEVICE Pending stage_replace(const Operation& operation, u64 hash, const Key& key, u64 version) {
    const Table& t = operation.p->table;
    const Item& item = operation.item;
    u32 flags = kReplaceWord;
    if (t.body() == kInline) {
        u64 head = version << 1 | ((item.commit & 1) ^ 1);
        if (lane() == 0) poke(t, item.commit_at + 8 * (1 + (head & 1)), operation.value_word(0));
        return Pending{item.commit_at, head, 0, flags, 0};
    }
    u64 record = write_record(operation, key, version);
    u64 word = t.body() == kPacked ? t.state_of(hash, record) : record;
    return Pending{item.commit_at, word, record_of(t, item.commit), flags | kBlockUsed, 0};
}

// Stages a new item in a claimed slot: everything except its state.
WK_DEVICE Pending stage_fill(const Operation& operation, const Slot& slot, u64 hash, const Key& key, u64 version) {
    const Table& t = operation.p->table;
    for (u32 i = lane(); i < t.slot_key_words(); i += kWarp) poke(t, slot.key_at(t) + 8 * i, key.word(i));
    u32 flags = kFill;
    u64 record = 0;
    if (t.body() == kInline) {
        if (lane() == 0) {
            // The value before the head, in the order in which readers check them.
            poke(t, slot.payload_at(t) + 8, operation.value_word(0));
            poke(t, slot.payload_at(t), version << 1);
        }
    } else {
        record = write_record(operation, key, version);
        flags |= kBlockUsed;
        if (t.body() == kReference && lane() == 0) poke(t, slot.payload_at(t), record);
    }
    return Pending{slot.state_at(), t.state_of(hash, record), 0, flags, 0};
}

WK_DEVICE void store_pending(const StageParams& p, u64 index, u8 status, u64 version, const Pending& pending) {
    store(p.statuses + index, status);
    store(p.versions + index, version);
    Pending* to = p.pending + index;
    store(&to->word_at, pending.word_at);
    store(&to->word, pending.word);
    store(&to->old_record, pending.old_record);
    store(&to->flags, pending.flags);
    store(&to->reserved, 0u);
}

// Stages an operation: everything except the word that commits it.
WK_DEVICE void stage_one(Operation& operation, u64 hash, const Key& key) {
    const StageParams& p = *operation.p;
    const Table& t = p.table;
    operation.item = find(t, hash, key);
    Decision decision = is_key(t, key) ? decide(operation) : Decision{kMalformed, false};
    u64 version = p.first_version + operation.index;
    u64 answer_version = operation.item.version;
    Pending pending{0, 0, 0, kNone, 0};
    if (decision.status == kOk && operation.op == kGet && p.answers) {
        copy_value(t, operation.item, p.answers + operation.index * t.value_words());
    }
    if (decision.writes && operation.op == kFetchAdd && lane() == 0) {
        store(p.answers + operation.index, operation.item.exists ? operation.stored_word(0) : 0);
    }
    if (decision.writes && operation.op == kDelete) {
        u64 old_record = t.body() == kInline ? 0 : record_of(t, operation.item.commit);
        pending = Pending{operation.item.state_at, kEmpty, old_record, kClear, 0};
    } else if (decision.writes && operation.item.exists) {
        pending = stage_replace(operation, hash, key, version);
        answer_version = version;
    } else if (decision.writes) {
        Slot slot = claim(t, hash);
        if (slot.is_valid()) {
            pending = stage_fill(operation, slot, hash, key, version);
            answer_version = version;
        } else {
            decision.status = kTableFull;
        }
    }
    if (operation.item.in_overflow) pending.flags |= kInOverflow;
    if (is_omitted(FaultPoint::PublishAfterStage) && lane() == 0 && (pending.flags & kKindMask) != kNone) {
        poke(t, pending.word_at, pending.word);
    }
    if (lane() == 0) store_pending(p, operation.index, decision.status, answer_version, pending);
}

struct PublishParams {
    Table table;
    u64 count;
    const Pending* pending;
    const u64* keys;
};

// Publishes a staged change, in the image and in the device index.
WK_DEVICE void publish_one(const PublishParams& p, u64 i) {
    const Table& t = p.table;
    const Pending* pending = p.pending + i;
    u32 kind = load(&pending->flags) & kKindMask;
    bool changes = kind != kNone;
    u64 at = changes ? load(&pending->word_at) : 0;
    u64 word = changes ? load(&pending->word) : 0;
    U128* entry = nullptr;
    if (changes && t.index.entries && !is_omitted(FaultPoint::IndexUpdate)) {
        Key key{p.keys + i * t.key_words(), t.key_len()};
        entry = reserve_entry(t, key, kind != kClear);
    }
    // Busy entries before words: a reader, or the CPU, that finds the new word finds nothing older in the index
    // afterwards.
    if (t.index.entries && !is_omitted(FaultPoint::InvalidateBeforeChange)) persist_fence();
    if (changes) poke(t, at, word);
    // Words before the acknowledgement, before the entry, and before reuse of the records they replaced.
    fence_at(FaultPoint::PublishEndFence);
    if (entry) publish_entry(entry, kind == kClear ? removed_target(t) : record_of(t, word));
}

}  // namespace gphash
