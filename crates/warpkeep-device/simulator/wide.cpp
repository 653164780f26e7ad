// Sixteen bytes in one step, on the host.
#include "warpkeep/simt.h"

#if !defined(__x86_64__)
#include <atomic>
#endif

namespace wk::sim {

#if defined(__x86_64__)

U128 cas_wide(U128* p, U128 expected, U128 desired) {
    bool same;
    asm volatile("lock cmpxchg16b %1"
                 : "=@ccz"(same), "+m"(*p), "+a"(expected.lo), "+d"(expected.hi)
                 : "b"(desired.lo), "c"(desired.hi)
                 : "memory");
    (void)same;
    return expected;
}

// An exchange of nothing for nothing tells what is there.
U128 load_wide(const U128* p) { return cas_wide(const_cast<U128*>(p), U128{0, 0}, U128{0, 0}); }

#else

namespace {

// One lock for many addresses. It orders 16-byte operations among themselves, which is all they promise.
std::atomic_flag locks[64];

struct Held {
    explicit Held(const void* p) : flag(locks[reinterpret_cast<unsigned long>(p) / 16 % 64]) {
        while (flag.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~Held() { flag.clear(std::memory_order_release); }
    std::atomic_flag& flag;
};

}  // namespace

U128 cas_wide(U128* p, U128 expected, U128 desired) {
    Held held(p);
    U128 old = *p;
    if (old.lo == expected.lo && old.hi == expected.hi) *p = desired;
    return old;
}

U128 load_wide(const U128* p) {
    Held held(p);
    return *p;
}

#endif

U128 exchange_wide(U128* p, U128 value) {
    U128 old = load_wide(p);
    for (;;) {
        U128 seen = cas_wide(p, old, value);
        if (seen.lo == old.lo && seen.hi == old.hi) return old;
        old = seen;
    }
}

void store_wide(U128* p, U128 value) { exchange_wide(p, value); }

}  // namespace wk::sim
