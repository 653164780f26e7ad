// Requests on tables of 32-bit keys and values, and their answers: src/gpu/slab/batch.rs has the same.
#pragma once
#include "warpkeep/hash.h"

namespace bench {

using namespace wk;

enum class Request : u32 { Search = 0, Replace = 2, Delete = 3 };

// What a request came to, the upper half of an answer; the lower half is the value that was there. 0 while it is not done.
enum class Outcome : u32 { Inserted = 1, Updated = 2, Found = 3, Removed = 4, Present = 5, Absent = 6, Full = 7 };

WK_DEVICE constexpr u64 answer_of(Outcome outcome, u32 value = 0) { return (u64)(u32)outcome << 32 | value; }

// Columns of requests.
struct Requests {
    const u32* ops;
    const u32* keys;
    const u32* values;
    u64* answers;
    u64 count;
};

// The request of a thread, if it has one.
struct OwnRequest {
    bool is_there;
    Request what;
    u32 key;
    u32 value;

    WK_DEVICE OwnRequest(const Requests& of, u64 number) : is_there(number < of.count), what(Request::Search), key(0), value(0) {
        if (!is_there) return;
        what = (Request)load(of.ops + number);
        key = load(of.keys + number);
        value = load(of.values + number);
    }
};

}  // namespace bench
