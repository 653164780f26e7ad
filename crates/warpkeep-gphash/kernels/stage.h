// Writing a batch, in two steps with the log between them: staging decides every operation, claims slots and writes records, all of
// it where nobody looks; publishing stores the words that make it count.
#pragma once
#include "cells.h"
#include "checksum.h"
#include "claim.h"
#include "get.h"
#include "mirror.h"
#include "plan.h"

namespace gphash {

// Operation codes of warpkeep-core.
enum Op : u8 { kGet = 1, kPut = 2, kInsertOp = 3, kUpdate = 4, kDelete = 5, kCompareAndSwap = 6, kFetchAdd = 7, kMerge = 8 };

// Codes of merge rules.
enum Rule : u32 { kNoRule = 0, kReplace = 1, kAddU64 = 2, kMaxU64 = 3, kMinU64 = 4, kAddF32 = 5, kAddF64 = 6, kOr = 7 };

// What becomes of a slot.
enum Kind : u32 { kNone = 0, kFill = 1, kReplaceWord = 2, kClear = 3 };
constexpr u32 kKindMask = 0xff;
// The item was in the overflow.
constexpr u32 kInOverflow = 0x100;
// The operation's block holds a record now.
constexpr u32 kBlockUsed = 0x200;

// A change that is staged: the word at an offset, and the record that goes with the old one.
struct Pending {
    u64 at;
    u64 word;
    u64 old;
    u32 flags;
    u32 reserved;
};

struct StageParams {
    Table table;
    u64 count;
    // Columns of the batch; no two operations that are not left have the same key. Keys and values are rows of whole words. Values
    // and arguments may be null if no operation takes one.
    const u8* ops;
    const u64* keys;
    const u64* values;
    const u64* arguments;
    // A free block of the heap for each, if items have records.
    const u64* blocks;
    // Operation i gives what it writes this version plus i.
    u64 first_version;
    // Answers: statuses, versions, and values for gets and fetch-adds.
    u8* statuses;
    u64* versions;
    u64* answers;
    Pending* pending;
    // Not 0 for operations that are left to the CPU; or null.
    const u32* left;
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

// A word of a merged value.
WK_DEVICE u64 merged(u32 rule, u64 stored, u64 given) {
    switch (rule) {
    case kAddU64: return stored + given;
    case kMaxU64: return stored > given ? stored : given;
    case kMinU64: return stored < given ? stored : given;
    case kAddF32: return add_f32(stored, given);
    case kAddF64: return add_f64(stored, given);
    case kOr: return stored | given;
    default: return given;
    }
}

// One operation, in the hands of a warp.
struct Work {
    const StageParams* p;
    u64 index;
    u8 op;
    u64 argument;
    Found found;

    WK_DEVICE u64 stored_word(u32 i) const {
        const Table& t = p->table;
        return t.body() == kInline ? found.word : record_word(t, found.value_at + 8 * i);
    }

    // A word of the value that the key is to have.
    WK_DEVICE u64 value_word(u32 i) const {
        const Table& t = p->table;
        if (op == kFetchAdd) return (found.there ? stored_word(i) : 0) + argument;
        u64 given = load(p->values + index * t.value_words() + i);
        return op == kMerge && found.there ? merged(t.merge_rule, stored_word(i), given) : given;
    }
};

// What an operation is answered, and whether it changes anything.
struct Decision {
    u8 status;
    bool writes;
};

// Whether the columns have what the operation takes. Nobody has checked those that were in device memory from the start.
WK_DEVICE bool has_columns(const StageParams& p, u8 op) {
    bool takes_value = op == kPut || op == kInsertOp || op == kUpdate || op == kCompareAndSwap || op == kMerge;
    bool takes_argument = op == kCompareAndSwap || op == kFetchAdd;
    return op >= kGet && op <= kMerge && (p.values || !takes_value || p.table.value_len() == 0) && (p.arguments || !takes_argument);
}

WK_DEVICE Decision decide(const Work& work) {
    const Table& t = work.p->table;
    bool there = work.found.there;
    if (!has_columns(*work.p, work.op)) return Decision{kMalformed, false};
    switch (work.op) {
    case kGet: return Decision{(u8)(there ? kOk : kNotFound), false};
    case kInsertOp:
        if (there) return Decision{kAlreadyExists, false};
        break;
    case kUpdate:
    case kDelete:
        if (!there) return Decision{kNotFound, false};
        break;
    case kCompareAndSwap:
        if (!there) return Decision{kNotFound, false};
        if (work.found.version != work.argument) return Decision{kVersionMismatch, false};
        break;
    case kFetchAdd:
        if (t.value_len() != 8) return Decision{kWrongType, false};
        break;
    case kMerge:
        if (t.merge_rule == kNoRule) return Decision{kWrongType, false};
        break;
    default: break;
    }
    return Decision{(u8)(there ? kOk : kCreated), true};
}

// Writes the record of what a key is to have into the operation's block, all lanes together; gives its offset.
WK_DEVICE u64 write_record(const Work& work, const Key& key, u64 version) {
    const Table& t = work.p->table;
    u64 block = load(work.p->blocks + work.index);
    u32 values = t.value_words(), keys = t.record_key_words();
    u64 sum = 0;
    for (u32 i = lane(); i < values + keys + 1; i += kWarp) {
        u64 word = i < values ? work.value_word(i) : i < values + keys ? key.word(i - values) : version;
        if (t.checksums() && i < values) sum += value_share(t, i, word);
        poke(t, t.word_at(block, i), word);
    }
    if (t.checksums() && !left_out(Step::Summed)) {
        u32 digest = digest_of_sum(sum_of_lanes(sum, kWarp));
        if (lane() == 0) poke(t, t.version_at(block) + 8, checksum(t, digest, key, version));
    }
    return block;
}

// Another value for a key that is there: everything but the word that makes it count.
WK_DEVICE Pending replacement(const Work& work, u64 hash, const Key& key, u64 version) {
    const Table& t = work.p->table;
    const Found& found = work.found;
    u32 flags = kReplaceWord;
    if (t.body() == kInline) {
        u64 head = version << 1 | ((found.commit & 1) ^ 1);
        if (lane() == 0) poke(t, found.commit_at + 8 * (1 + (head & 1)), work.value_word(0));
        return Pending{found.commit_at, head, 0, flags, 0};
    }
    u64 record = write_record(work, key, version);
    u64 word = t.body() == kPacked ? t.state_of(hash, record) : record;
    return Pending{found.commit_at, word, record_of(t, found.commit), flags | kBlockUsed, 0};
}

// A claimed slot for a key that is not there: everything but its state.
WK_DEVICE Pending filling(const Work& work, const Slot& slot, u64 hash, const Key& key, u64 version) {
    const Table& t = work.p->table;
    for (u32 i = lane(); i < t.slot_key_words(); i += kWarp) poke(t, slot.key_at(t) + 8 * i, key.word(i));
    u32 flags = kFill;
    u64 record = 0;
    if (t.body() == kInline) {
        if (lane() == 0) {
            // The value before the head, as readers check.
            poke(t, slot.payload_at(t) + 8, work.value_word(0));
            poke(t, slot.payload_at(t), version << 1);
        }
    } else {
        record = write_record(work, key, version);
        flags |= kBlockUsed;
        if (t.body() == kReference && lane() == 0) poke(t, slot.payload_at(t), record);
    }
    return Pending{slot.state_at(), t.state_of(hash, record), 0, flags, 0};
}

WK_DEVICE void note_pending(const StageParams& p, u64 index, u8 status, u64 version, const Pending& pending) {
    store(p.statuses + index, status);
    store(p.versions + index, version);
    Pending* to = p.pending + index;
    store(&to->at, pending.at);
    store(&to->word, pending.word);
    store(&to->old, pending.old);
    store(&to->flags, pending.flags);
    store(&to->reserved, 0u);
}

// Does everything about an operation but make it count.
WK_DEVICE void stage_one(Work& work, u64 hash, const Key& key) {
    const StageParams& p = *work.p;
    const Table& t = p.table;
    work.found = find(t, hash, key);
    Decision decision = is_key(t, key) ? decide(work) : Decision{kMalformed, false};
    u64 version = p.first_version + work.index;
    u64 answered = work.found.version;
    Pending pending{0, 0, 0, kNone, 0};
    if (decision.status == kOk && work.op == kGet && p.answers) {
        copy_value(t, work.found, p.answers + work.index * t.value_words());
    }
    if (decision.writes && work.op == kFetchAdd && lane() == 0) {
        store(p.answers + work.index, work.found.there ? work.stored_word(0) : 0);
    }
    if (decision.writes && work.op == kDelete) {
        u64 old = t.body() == kInline ? 0 : record_of(t, work.found.commit);
        pending = Pending{work.found.state_at, kEmpty, old, kClear, 0};
    } else if (decision.writes && work.found.there) {
        pending = replacement(work, hash, key, version);
        answered = version;
    } else if (decision.writes) {
        Slot slot = claim(t, hash);
        if (slot.is()) {
            pending = filling(work, slot, hash, key, version);
            answered = version;
        } else {
            decision.status = kTableFull;
        }
    }
    if (work.found.in_overflow) pending.flags |= kInOverflow;
    if (left_out(Step::Apart) && lane() == 0 && (pending.flags & kKindMask) != kNone) poke(t, pending.at, pending.word);
    if (lane() == 0) note_pending(p, work.index, decision.status, answered, pending);
}

struct PublishParams {
    Table table;
    u64 count;
    const Pending* pending;
    const u64* keys;
};

// Makes a staged change count, in the image and in the mirror.
WK_DEVICE void publish_one(const PublishParams& p, u64 i) {
    const Table& t = p.table;
    const Pending* pending = p.pending + i;
    u32 kind = load(&pending->flags) & kKindMask;
    bool changes = kind != kNone;
    u64 at = changes ? load(&pending->at) : 0;
    u64 word = changes ? load(&pending->word) : 0;
    U128* entry = nullptr;
    if (changes && t.mirror.entries && !left_out(Step::Mirrored)) {
        Key key{p.keys + i * t.key_words(), t.key_len()};
        entry = veil_entry(t, key, kind != kClear);
    }
    // Whoever finds the new word in the image, the CPU too, finds nothing older in the mirror afterwards.
    if (t.mirror.entries && !left_out(Step::Veiled)) persist_fence();
    if (changes) poke(t, at, word);
    // Words before the acknowledgement, and before what they led to is used again.
    fence_at(Step::Published);
    if (entry) set_entry(entry, kind == kClear ? removed(t) : record_of(t, word));
}

}  // namespace gphash
