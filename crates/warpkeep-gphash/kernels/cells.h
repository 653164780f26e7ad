// Rows that stand for keys of any length: their cells. A cell has the bytes of the key, zeros, and the length of the key in its last byte.
#pragma once
#include "table.h"

namespace gphash {

// Whether a row of a batch is a key of the table, where keys lie in cells: nobody has checked rows that came in device memory. What is no
// cell must not be written: the CPU would take it for another key.
WK_DEVICE bool is_key(const Table& t, const Key& row) {
    if (t.longest() == 0) return true;
    u32 last = row.count() - 1;
    u32 len = (u32)(row.word(last) >> 56);
    if (len > t.longest()) return false;
    u64 behind = 0;
    for (u32 i = 0; i <= last; i++) {
        u64 word = i == last ? row.word(i) << 8 >> 8 : row.word(i);
        // Bytes of the key from this word on.
        u32 rest = len > 8 * i ? len - 8 * i : 0;
        if (rest < 8) behind |= word >> 8 * rest;
    }
    return behind == 0;
}

}  // namespace gphash
