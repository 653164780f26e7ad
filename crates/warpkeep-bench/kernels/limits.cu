// The limits of memory: rows read and written, at random or in the order of their addresses, without other work.
#include "warpkeep/sm_affinity.h"
#include "words.h"

namespace bench {

struct AccessParams {
    // Self-describing words: word i holds i plus the salt of its last writer.
    u64* words;
    u64 rows;
    u64 count;
    u64 seed;
    // Rows from one access to the next; 0 if they are drawn from all rows.
    u64 stride;
    u64 salt;
    u64* sums;
    // Multiprocessors, each of which draws from its own share of the rows, and the number of blocks on each; 0 if
    // all draw from all.
    u64 homes;
    u32* came;
};

// Accesses that a lane has under way: memory is far, and more of them hide it.
constexpr u32 kUnderWay = 4;

WK_DEVICE u64 row_of(const AccessParams& p, u64 number) {
    u64 drawn = scatter(p.seed, number);
    if (p.homes) {
        u64 share = p.rows / p.homes;
        return number % p.homes * share + mul_hi(drawn, share);
    }
    return p.stride ? number * p.stride + mul_hi(drawn, p.stride) : mul_hi(drawn, p.rows);
}

WK_DEVICE u64 sum_of(u64 word) { return word; }
WK_DEVICE u64 sum_of(U128 pair) { return pair.lo + pair.hi; }
WK_DEVICE void name(u64& word, u64 first, u64 salt) { word = first + salt; }
WK_DEVICE void name(U128& pair, u64 first, u64 salt) { pair = U128{first + salt, first + 1 + salt}; }

// Rows of as many units of T as a tile has lanes: every `step`-th, from the first on. Accesses with neighbouring
// numbers are in flight at the same time.
template <class T, u32 Lanes> WK_DEVICE void read_rows(const AccessParams& p, u64 first, u64 step) {
    const T* pieces = (const T*)p.words;
    u32 piece = thread_index() % Lanes;
    u64 sum = 0;
    for (u64 i = first; i < p.count; i += kUnderWay * step) {
        T got[kUnderWay] = {};
        for (u32 k = 0; k < kUnderWay; k++) {
            u64 number = i + k * step;
            if (number < p.count) got[k] = load_l2(pieces + row_of(p, number) * Lanes + piece);
        }
        for (u32 k = 0; k < kUnderWay; k++) sum += sum_of(got[k]);
    }
    add_up(p.sums, sum);
}

template <class T, u32 Lanes> WK_DEVICE void read_rows(const AccessParams& p) {
    read_rows<T, Lanes>(p, global_index() / Lanes, global_size() / Lanes);
}

template <class T, u32 Lanes> WK_DEVICE void write_rows(const AccessParams& p, u64 first, u64 step) {
    T* pieces = (T*)p.words;
    u32 piece = thread_index() % Lanes;
    for (u64 number = first; number < p.count; number += step) {
        u64 at = row_of(p, number) * Lanes + piece;
        T put;
        name(put, at * (sizeof(T) / 8), p.salt);
        store(pieces + at, put);
    }
}

template <class T, u32 Lanes> WK_DEVICE void write_rows(const AccessParams& p) {
    write_rows<T, Lanes>(p, global_index() / Lanes, global_size() / Lanes);
}

// Words that are compared and swapped for themselves, so that they stay as they are; counts those that were.
WK_DEVICE void swap_words(const AccessParams& p) {
    u64 as_expected = 0, step = global_size();
    for (u64 i = global_index(); i < p.count; i += kUnderWay * step) {
        u64 rows[kUnderWay] = {}, found[kUnderWay] = {};
        for (u32 k = 0; k < kUnderWay; k++) {
            u64 number = i + k * step;
            rows[k] = number < p.count ? row_of(p, number) : 0;
            found[k] = ~rows[k];
            if (number < p.count) found[k] = cas<Scope::Device, Order::Relaxed>(p.words + rows[k], rows[k], rows[k]);
        }
        for (u32 k = 0; k < kUnderWay; k++) as_expected += found[k] == rows[k] ? 1 : 0;
    }
    add_up(p.sums, as_expected);
}

// Which rows a tile has: the first of them, and from one to the next.
struct Own {
    u64 first;
    u64 step;
};

// Each block takes the rows of its own multiprocessor, or of another that has too few blocks; all have equal
// shares.
template <u32 Lanes> WK_DEVICE Own own_rows(const AccessParams& p) {
    WK_SHARED(u32, agreed, kSmSlotWords);
    u32 slots = grid_size() / (u32)p.homes;
    SmSlot slot(p.came, (u32)p.homes, slots, agreed);
    u64 tiles = block_size() / Lanes, mine = slot.number * tiles + thread_index() / Lanes;
    return Own{mine * p.homes + slot.sm, slots * tiles * p.homes};
}

template <class T, u32 Lanes> WK_DEVICE void read_own_rows(const AccessParams& p) {
    Own own = own_rows<Lanes>(p);
    read_rows<T, Lanes>(p, own.first, own.step);
}

template <class T, u32 Lanes> WK_DEVICE void write_own_rows(const AccessParams& p) {
    Own own = own_rows<Lanes>(p);
    write_rows<T, Lanes>(p, own.first, own.step);
}

struct NothingParams {
    u64 unused;
};

}  // namespace bench

WK_KERNEL(bench_read_8, bench::AccessParams) { bench::read_rows<wk::u64, 1>(p); }
WK_KERNEL(bench_read_16, bench::AccessParams) { bench::read_rows<wk::U128, 1>(p); }
WK_KERNEL(bench_read_32, bench::AccessParams) { bench::read_rows<wk::U128, 2>(p); }
WK_KERNEL(bench_read_64, bench::AccessParams) { bench::read_rows<wk::U128, 4>(p); }
WK_KERNEL(bench_read_128, bench::AccessParams) { bench::read_rows<wk::U128, 8>(p); }
WK_KERNEL(bench_read_own_128, bench::AccessParams) { bench::read_own_rows<wk::U128, 8>(p); }
WK_KERNEL(bench_write_128, bench::AccessParams) { bench::write_rows<wk::U128, 8>(p); }
WK_KERNEL(bench_write_own_128, bench::AccessParams) { bench::write_own_rows<wk::U128, 8>(p); }
WK_KERNEL(bench_swap_8, bench::AccessParams) { bench::swap_words(p); }
WK_KERNEL(bench_nothing, bench::NothingParams) {}

WK_AGREE(bench_limits_sums, bench::kSums)
