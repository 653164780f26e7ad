// Keys beside the entries of a mirror, in device memory, for keys that are longer than their hashes: whoever finds an entry compares there,
// and nothing of a key crosses the link.
//
// An entry has one key for as long as there is the mirror, the one that it was claimed for: its hash stays, what is removed leaves it
// absent and not vacant, and another key with the same hash never gets it. Readers and writers of such another find by this that the entry is not theirs, and ask the image.
// So a key is written once, by whoever claimed the entry, and before the entry first says anything but that it is claimed. What an entry says is
// said of its key, whenever that is read.
//
// Readers order nothing: an acquire would take them another access, and what lies nearer. Whoever does not see all words of a key that was
// written just before sees what there was in place of them, takes the entry for that of another key, and asks the image. Only a key that has such a
// word could be taken for what it is not, so whoever has one reads again, with acquire.
#pragma once
#include "table.h"

namespace gphash {

// What each word is before a key is written.
constexpr u64 kUnwritten = 0xb7b7b7b7b7b7b7b7;

// Whether what the mirror says of a key is said of no other.
WK_DEVICE bool tells_keys_apart(const Table& t) { return t.key_len() == 8 || t.mirror.keys; }

// The key of a packed table's record.
WK_DEVICE Key key_of_record(const Table& t, u64 record) { return Key{t.at(t.tail_at(record)), t.key_len()}; }

// Gives an entry its key.
WK_DEVICE void put_key(const Table& t, const U128* entry, const Key& key) {
    if (left_out(Step::Keyed)) return;
    u64* to = t.mirror.keys + (entry - t.mirror.entries) * t.key_words();
    for (u32 i = 0; i < t.key_words(); i++) store<Scope::Device, Order::Relaxed>(to + i, key.word(i));
}

// What a look at the key of an entry comes to.
enum class Its { No, Yes, PerhapsUnwritten };

// Whether an entry that is more than claimed has this key, as far as one can see. A sector of 32 bytes at a time: more on their way would take
// registers of kernels that have none to spare. So would keeping an eye on the words of long keys, of which any could be unwritten.
WK_DEVICE Its compare_key(const Table& t, u64 number, const Key& key) {
    constexpr u32 kAtOnce = 4;
    const u64* its = t.mirror.keys + number * t.key_words();
    u32 len = t.key_len();
    bool unwritten = t.key_words() > 2 * kAtOnce;
    for (u32 first = 0; first < t.key_words(); first += kAtOnce) {
        u64 differ = 0;
        u32 i = first, end = first + kAtOnce;
        if (t.key_words() % 2 == 0) {
            for (; i < end && i + 2 <= len / 8; i += 2) {
                U128 two = load<Scope::Device, Order::Relaxed>((const U128*)(its + i)), own = key.pair(i / 2);
                differ |= (two.lo ^ own.lo) | (two.hi ^ own.hi);
                unwritten = unwritten || two.lo == kUnwritten || two.hi == kUnwritten;
            }
        }
        for (; i < end && i < len / 8; i++) {
            u64 one = load<Scope::Device, Order::Relaxed>(its + i);
            differ |= one ^ key.word(i);
            unwritten = unwritten || one == kUnwritten;
        }
        // What is behind the last byte does not count.
        if (i < end && i < t.key_words()) {
            u64 one = load<Scope::Device, Order::Relaxed>(its + i);
            u32 behind = 64 - len % 8 * 8;
            differ |= (one ^ key.word(i)) << behind;
            unwritten = unwritten || (one ^ kUnwritten) << behind == 0;
        }
        if (differ) return Its::No;
    }
    return unwritten ? Its::PerhapsUnwritten : Its::Yes;
}

// The same for whoever has read in order that the entry is more than claimed.
WK_DEVICE bool entry_has_key(const Table& t, u64 number, const Key& key) { return compare_key(t, number, key) != Its::No; }

}  // namespace gphash
