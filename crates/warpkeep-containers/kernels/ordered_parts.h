// Neighbouring words in device memory, read and written sixteen bytes at once.
#pragma once
#include "warpkeep/simt.h"

namespace ordered_map {

using namespace wk;

// Reads words one behind the other, sixteen bytes at once: lanes that each read a leaf of their own take a cycle for
// every read, whatever its size.
template <class T> struct PartReader {
    const U128* at = nullptr;
    U128 part{};

    WK_DEVICE T read(const T* word) {
        if constexpr (sizeof(T) == 16) {
            return load(word);
        } else {
            u64 address = (u64)word;
            const U128* its = (const U128*)(address & ~15ull);
            if (its != at) part = load(at = its);
            return (T)((address & 8 ? part.hi : part.lo) >> 8 * (address & (8 - sizeof(T))));
        }
    }
};

// Writes words one behind the other, sixteen bytes at once from the first multiple of sixteen on.
template <class T> struct PartWriter {
    T* to;
    U128 part{};
    bool is_whole = false;

    WK_DEVICE void write(T word) {
        if constexpr (sizeof(T) == 16) {
            store(to++, word);
        } else {
            u32 offset = (u32)(u64)to & 15;
            if (offset == 0) {
                is_whole = true;
                part = U128{};
            }
            if (!is_whole) {
                store(to++, word);
                return;
            }
            u64 bits = (u64)word << 8 * (offset & (8 - sizeof(T)));
            if (offset < 8) part.lo |= bits;
            else part.hi |= bits;
            to++;
            if (offset + sizeof(T) == 16) store((U128*)to - 1, part);
        }
    }

    // What does not fill sixteen bytes is written by write() or here.
    WK_DEVICE void end() {
        if constexpr (sizeof(T) < 16) {
            u32 left = (u32)(u64)to & 15;
            if (!is_whole || left == 0) return;
            u64* begin = (u64*)((u64)to & ~15ull);
            if (left >= 8) store(begin, part.lo);
            if (left % 8) store((u32*)to - 1, (u32)(left > 8 ? part.hi : part.lo));
        }
    }
};

}  // namespace ordered_map
