// The key column: the key of each index entry, in device memory, for keys longer than their hashes. Lookups compare
// keys here, and no key crosses the link.
//
// Invariant: an entry has one key for the lifetime of the index, the one it was claimed for. Its hash stays; a removed
// key leaves it negative and not vacant; and another key with the same hash never gets it. Readers and writers of such
// another key see that the entry is not theirs and use the image.
//
// Writing a key:
//   1. Claim the entry. Its target becomes kReserved.
//   2. Store the words of the key.
//   3. Publish the entry with a target other than kReserved, with release or behind a fence.
// So a key is stored once, before its entry has any target, and every target of the entry belongs to that key whenever
// the key is read.
//
// Reading a key. Readers use relaxed loads: acquire loads would cost another access, and drop what L1 holds. So a
// reader may miss some or all words of a key that was written just before, and see the fill pattern (kUnwritten) in
// their place. It then treats the entry as belonging to another key and falls back to the image. Only a key that
// contains the pattern could compare equal by accident; for such keys the entry is loaded again with acquire, and the
// comparison is repeated.
#pragma once
#include "table.h"

namespace gphash {

// The fill pattern of each word before a key is stored.
constexpr u64 kUnwritten = 0xb7b7b7b7b7b7b7b7;

// Whether a match in the index is exact: keys of eight bytes have distinct hashes, and a key column distinguishes the
// others.
WK_DEVICE bool is_exact(const Table& t) { return t.key_len() == 8 || t.index.keys; }

// The key of a packed table's record.
WK_DEVICE Key key_of_record(const Table& t, u64 record) { return Key{t.at(t.tail_at(record)), t.key_len()}; }

// Stores the key of a claimed entry.
WK_DEVICE void store_key(const Table& t, const U128* entry, const Key& key) {
    if (is_omitted(FaultPoint::KeyStored)) return;
    u64* to = t.index.keys + (entry - t.index.entries) * t.key_words();
    for (u32 i = 0; i < t.key_words(); i++) store<Scope::Device, Order::Relaxed>(to + i, key.word(i));
}

// The result of comparing a key with that of an entry. MaybeUnwritten: equal, but the words may be the fill pattern.
enum class KeyMatch { No, Yes, MaybeUnwritten };

// Compares a key with that of an entry whose target is not kReserved. It loads a sector of 32 bytes at a time: more in
// flight would take registers that the kernels do not have. So would checking each word of a long key for the pattern;
// a long key is always MaybeUnwritten.
WK_DEVICE KeyMatch compare_key(const Table& t, u64 number, const Key& key) {
    constexpr u32 kAtOnce = 4;
    const u64* stored = t.index.keys + number * t.key_words();
    u32 len = t.key_len();
    bool unwritten = t.key_words() > 2 * kAtOnce;
    for (u32 first = 0; first < t.key_words(); first += kAtOnce) {
        u64 differ = 0;
        u32 i = first, end = first + kAtOnce;
        if (t.key_words() % 2 == 0) {
            for (; i < end && i + 2 <= len / 8; i += 2) {
                U128 two = load<Scope::Device, Order::Relaxed>((const U128*)(stored + i)), own = key.pair(i / 2);
                differ |= (two.lo ^ own.lo) | (two.hi ^ own.hi);
                unwritten = unwritten || two.lo == kUnwritten || two.hi == kUnwritten;
            }
        }
        for (; i < end && i < len / 8; i++) {
            u64 one = load<Scope::Device, Order::Relaxed>(stored + i);
            differ |= one ^ key.word(i);
            unwritten = unwritten || one == kUnwritten;
        }
        // Bytes behind the end of the key are ignored.
        if (i < end && i < t.key_words()) {
            u64 one = load<Scope::Device, Order::Relaxed>(stored + i);
            u32 behind = 64 - len % 8 * 8;
            differ |= (one ^ key.word(i)) << behind;
            unwritten = unwritten || (one ^ kUnwritten) << behind == 0;
        }
        if (differ) return KeyMatch::No;
    }
    return unwritten ? KeyMatch::MaybeUnwritten : KeyMatch::Yes;
}

// For a caller that has loaded with acquire that the entry is not reserved.
WK_DEVICE bool entry_has_key(const Table& t, u64 number, const Key& key) {
    return compare_key(t, number, key) != KeyMatch::No;
}

}  // namespace gphash
