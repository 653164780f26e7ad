// Checks answers where they lie: every byte of every value, by the rule of src/workload.rs.
#include "words.h"

namespace bench {

struct AnswersParams {
    u64 count;
    // For each answer: the number of its item; a status; a row of whole words with the value.
    const u64* numbers;
    const u8* statuses;
    const u64* values;
    u64 value_len;
    u64 generation;
    u64 seed;
    // The status that every answer must have, and the value that goes with it: none, one of that generation, or one
    // of any generation.
    u32 status;
    u32 with_value;
    // How many are wrong.
    u64* wrong;
};

WK_DEVICE bool is_right(const AnswersParams& p, u64 index) {
    if (load(p.statuses + index) != p.status) return false;
    if (!p.with_value) return true;
    u64 number = load(p.numbers + index);
    u64 words = (p.value_len + 7) / 8;
    u64 seal = rotl(number, 32) ^ p.seed ^ 0x5EA1;
    bool sealed = p.value_len >= 16;
    u64 sealed_from = p.value_len - 8;
    // Of any generation: the one in the second word, which all other words must match.
    u64 generation = p.generation;
    if (p.with_value == 2 && words > 1) generation = load(p.values + index * words + 1) ^ rotl(number, 29);
    u64 word = number;
    for (u64 i = 0; i < words; i++) {
        // The seal lies over the last eight bytes, which are not always a whole word of the row.
        u64 at = 8 * i;
        u64 bytes = p.value_len - at < 8 ? p.value_len - at : 8;
        u64 keep = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
        u64 expected = word & keep;
        if (sealed && at + 8 > sealed_from) {
            u64 into = sealed_from > at ? sealed_from - at : 0;
            u64 skipped = at > sealed_from ? at - sealed_from : 0;
            u64 over = into ? seal << 8 * into : seal >> 8 * skipped;
            u64 mask = into ? ~0ull << 8 * into : ~0ull;
            expected = ((expected & ~mask) | (over & mask)) & keep;
        }
        if ((load(p.values + index * words + i) & keep) != expected) return false;
        word = rotl(word, 29) ^ generation;
    }
    return true;
}

}  // namespace bench

WK_KERNEL(bench_answers, bench::AnswersParams) {
    using namespace bench;
    u64 wrong = 0;
    for (u64 i = global_index(); i < p.count; i += global_size()) wrong += is_right(p, i) ? 0 : 1;
    add_up(p.wrong, wrong);
}

WK_AGREE(bench_answers_sums, bench::kSums)
