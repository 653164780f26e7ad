// Padded key cells: fixed-length rows for keys of variable length.
//
// A cell holds the bytes of the key, zeros, and the length of the key in its last byte.
#pragma once
#include "table.h"

namespace gphash {

// Whether a row of a batch is a valid cell, where keys lie in cells. The host has not checked rows that come from
// device memory. An invalid cell must not be written: the CPU would decode a different key from it.
WK_DEVICE bool is_key(const Table& t, const Key& row) {
    if (t.max_key_len() == 0) return true;
    u32 last = row.count() - 1;
    u32 len = (u32)(row.word(last) >> 56);
    if (len > t.max_key_len()) return false;
    u64 padding = 0;
    for (u32 i = 0; i <= last; i++) {
        u64 word = i == last ? row.word(i) << 8 >> 8 : row.word(i);
        // Key bytes from this word on.
        u32 rest = len > 8 * i ? len - 8 * i : 0;
        if (rest < 8) padding |= word >> 8 * rest;
    }
    return padding == 0;
}

}  // namespace gphash
