// The host compiler's side of the seam: what simt.h forwards to the simulator. Kernels do not include it themselves.
//
// An operation on memory asks its lane for permission first. In fast mode that is one decrement, and the operation
// then is the host's own; a lane asks the simulator only when its allowance is spent. In modes that check or delay
// accesses the allowance is always spent, so that the simulator carries out each operation itself.
#pragma once
#include <cstddef>
#include <cstring>
#include <type_traits>

// The sanitizer sees kernels; the simulator itself is built without it, and learns of it by WK_SIM_TSAN.
#if defined(__SANITIZE_THREAD__)
#define WK_TSAN 1
// For what the simulator keeps for itself in kernel code: it would look like a race between lanes that had the same place.
#define WK_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#include <sanitizer/tsan_interface.h>
#else
#define WK_TSAN 0
#define WK_UNSEEN
#endif

namespace wk {

// A position in kernel source.
struct Site {
    const char* file;
    u32 line;
    static constexpr Site here(const char* file = __builtin_FILE(), u32 line = __builtin_LINE()) { return Site{file, line}; }
};

namespace machine {
enum class Rmw { Add, Or, And, Max, Min, Exchange };
enum class Hint { Once, L2, Streaming };
}  // namespace machine

namespace sim {

// What kernel code sees of the lane that runs it.
struct LaneFace {
    // Operations until the simulator must be asked.
    int allowance;
    u32 thread;
    u32 block;
    u32 block_size;
    u32 grid_size;
#if WK_TSAN || defined(WK_SIM_TSAN)
    // ThreadSanitizer knows no fences: relaxed stores after one release, and a fence acquires what relaxed loads saw before.
    bool fenced;
    u32 recent_loads;
    const void* recent[8];
#endif
};

extern __thread LaneFace* current_lane __attribute__((tls_model("initial-exec")));

inline LaneFace& lane() { return *current_lane; }
WK_UNSEEN inline bool must_ask() { return __builtin_expect(--lane().allowance <= 0, 0); }

// The kinds of collective; all lanes of one must agree.
enum class Kind : unsigned char { Ballot, Any, All, Shuffle, ShuffleXor, Match, Sync };

// Where a load looks: in the block's own cache first, in the device's at once, or in one for what never changes.
enum class Cached : unsigned char { First, Device, Once };

// The asked simulator carries the operation out and says true, or leaves it to the caller and says false.
bool ask_load(const void* p, void* out, u32 bytes, Scope scope, Order order, Cached cached, Site at);
bool ask_store(void* p, const void* value, u32 bytes, Scope scope, Order order, Site at);
bool ask_rmw(void* p, machine::Rmw op, const void* value, void* old, u32 bytes, Scope scope, Order order, Site at);
bool ask_cas(void* p, const void* expected, const void* desired, void* old, u32 bytes, Scope scope, Order order, Site at);
bool ask_fence(Scope scope, Site at);
// Shared memory has one scope and is always the simulator's to find.
bool ask_shared_load(const void* p, void* out, u32 bytes, Site at);
bool ask_shared_store(void* p, const void* value, u32 bytes, Site at);
bool ask_shared_rmw(void* p, machine::Rmw op, const void* value, void* old, u32 bytes, Site at);
bool ask_shared_cas(void* p, const void* expected, const void* desired, void* old, u32 bytes, Site at);

// Meets the other lanes of `mask`; `value` is what this lane gives, `from` the lane of the warp it asks.
u64 meet(Kind kind, u32 mask, u64 value, u32 from, Site at);
void meet_block(Site at);
void step_aside(u32 ns, Site at);
u64 ticks();
void* static_shared(const void* tag, std::size_t bytes, std::size_t alignment, Site at);
void* dynamic_shared(u32 offset, std::size_t element, std::size_t alignment, u32* length, Site at);
[[noreturn]] void fail_index(u32 index, u32 length, Site at);
[[noreturn]] void fail_assert(const char* text, u32 code, Site at);
void check_params(std::size_t bytes);

// Sixteen bytes in one step.
U128 load_wide(const U128* p);
void store_wide(U128* p, U128 value);
U128 exchange_wide(U128* p, U128 value);
U128 cas_wide(U128* p, U128 expected, U128 desired);

constexpr int host_order(Order order) {
    switch (order) {
    case Order::Acquire: return __ATOMIC_ACQUIRE;
    case Order::Release: return __ATOMIC_RELEASE;
    case Order::AcqRel: return __ATOMIC_ACQ_REL;
    default: return __ATOMIC_RELAXED;
    }
}

// How strong a store or a change really is: after a fence ThreadSanitizer must see what the fence did.
WK_UNSEEN inline int publish_order(Order order) {
#if WK_TSAN
    if (lane().fenced && order == Order::Relaxed) return __ATOMIC_RELEASE;
    if (lane().fenced && order == Order::Acquire) return __ATOMIC_ACQ_REL;
#endif
    return host_order(order);
}

WK_UNSEEN inline void note_relaxed_load(const void* p) {
#if WK_TSAN
    LaneFace& l = lane();
    l.recent[l.recent_loads++ % 8] = p;
#else
    (void)p;
#endif
}

WK_UNSEEN inline void host_fence() {
#if WK_TSAN
    LaneFace& l = lane();
    l.fenced = true;
    for (u32 i = 0; i < 8 && i < l.recent_loads; i++) __tsan_acquire(const_cast<void*>(l.recent[i]));
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// The operation itself, on the host. `R` may differ from lane to lane only through templates.
template <machine::Rmw R, class T> inline T host_rmw(T* p, T v, int order) {
    using machine::Rmw;
    if constexpr (R == Rmw::Add) {
        return __atomic_fetch_add(p, v, order);
    } else if constexpr (R == Rmw::Or) {
        return __atomic_fetch_or(p, v, order);
    } else if constexpr (R == Rmw::And) {
        return __atomic_fetch_and(p, v, order);
    } else if constexpr (R == Rmw::Exchange) {
        return __atomic_exchange_n(p, v, order);
    } else {
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);
        for (;;) {
            T next = R == Rmw::Max ? (old > v ? old : v) : (old < v ? old : v);
            if (__atomic_compare_exchange_n(p, &old, next, true, order, __ATOMIC_RELAXED)) return old;
        }
    }
}

template <class T> inline T host_cas(T* p, T expected, T desired, int order) {
    int failed = order == __ATOMIC_RELEASE ? __ATOMIC_RELAXED : order == __ATOMIC_ACQ_REL ? __ATOMIC_ACQUIRE : order;
    __atomic_compare_exchange_n(p, &expected, desired, false, order, failed);
    return expected;
}

}  // namespace sim

namespace machine {

inline u32 thread_index() { return sim::lane().thread; }
inline u32 block_index() { return sim::lane().block; }
inline u32 block_size() { return sim::lane().block_size; }
inline u32 grid_size() { return sim::lane().grid_size; }
// Some have more blocks than others, as where other kernels run.
inline u32 multiprocessor() { return block_index() - (block_index() % 3 == 2); }

inline u32 popc(u32 x) { return (u32)__builtin_popcount(x); }
inline u32 popc(u64 x) { return (u32)__builtin_popcountll(x); }
inline u32 ffs(u32 x) { return (u32)__builtin_ffs((int)x); }
inline u32 ffs(u64 x) { return (u32)__builtin_ffsll((long long)x); }
inline u32 clz(u32 x) { return x ? (u32)__builtin_clz(x) : 32; }
inline u32 clz(u64 x) { return x ? (u32)__builtin_clzll(x) : 64; }

template <Scope S, Order O, class T> inline T load(const T* p, Site at) {
    if (sim::must_ask()) {
        T v;
        if (sim::ask_load(p, &v, sizeof(T), S, O, sim::Cached::First, at)) return v;
    }
    if constexpr (O == Order::Weak) {
        return *p;
    } else if constexpr (sizeof(T) == 16) {
        return sim::load_wide(p);
    } else {
        if constexpr (O == Order::Relaxed) sim::note_relaxed_load(p);
        return __atomic_load_n(p, sim::host_order(O));
    }
}

template <Scope S, Order O, class T> inline void store(T* p, T v, Site at) {
    if (sim::must_ask() && sim::ask_store(p, &v, sizeof(T), S, O, at)) return;
    if constexpr (O == Order::Weak) {
        *p = v;
    } else if constexpr (sizeof(T) == 16) {
        sim::store_wide(p, v);
    } else {
        __atomic_store_n(p, v, sim::publish_order(O));
    }
}

template <Hint H, class T> inline T load_hint(const T* p, Site at) {
    if (sim::must_ask()) {
        T v;
        constexpr sim::Cached cached = H == Hint::Once ? sim::Cached::Once : sim::Cached::Device;
        if (sim::ask_load(p, &v, sizeof(T), Scope::Device, Order::Weak, cached, at)) return v;
    }
    return *p;
}

template <class T> inline void store_streaming(T* p, T v, Site at) { store<Scope::Device, Order::Weak, T>(p, v, at); }

// Touches nothing: a prefetch may name memory that is not there.
inline void prefetch(const void* p) { __builtin_prefetch(p); }

template <Rmw R, Scope S, Order O, class T> inline T rmw(T* p, T v, Site at) {
    if (sim::must_ask()) {
        T old;
        if (sim::ask_rmw(p, R, &v, &old, sizeof(T), S, O, at)) return old;
    }
    if constexpr (sizeof(T) == 16) {
        return sim::exchange_wide(p, v);
    } else {
        return sim::host_rmw<R>(p, v, sim::publish_order(O));
    }
}

template <Scope S, Order O, class T> inline T cas(T* p, T expected, T desired, Site at) {
    if (sim::must_ask()) {
        T old;
        if (sim::ask_cas(p, &expected, &desired, &old, sizeof(T), S, O, at)) return old;
    }
    if constexpr (sizeof(T) == 16) {
        return sim::cas_wide(p, expected, desired);
    } else {
        return sim::host_cas(p, expected, desired, sim::publish_order(O));
    }
}

template <Scope S> inline void fence(Site at) {
    if (sim::must_ask() && sim::ask_fence(S, at)) return;
    sim::host_fence();
}
inline void persist_fence(Site at) { fence<Scope::System>(at); }

inline u32 ballot(u32 mask, bool yes, Site at) { return (u32)sim::meet(sim::Kind::Ballot, mask, yes, 0, at); }
inline bool any(u32 mask, bool yes, Site at) { return sim::meet(sim::Kind::Any, mask, yes, 0, at) != 0; }
inline bool all(u32 mask, bool yes, Site at) { return (u32)sim::meet(sim::Kind::All, mask, yes, 0, at) == mask; }
template <class T> inline T shfl(u32 mask, T v, u32 rank, u32 width, Site at) {
    u32 me = thread_index() % kWarp;
    return (T)sim::meet(sim::Kind::Shuffle, mask, (u64)v, me - me % width + rank % width, at);
}
template <class T> inline T shfl_xor(u32 mask, T v, u32 bits, u32 width, Site at) {
    u32 me = thread_index() % kWarp;
    // As on the GPU, a partner beyond the tile means this lane itself.
    u32 from = bits < width ? me ^ bits : me;
    return (T)sim::meet(sim::Kind::ShuffleXor, mask, (u64)v, from, at);
}
template <class T> inline u32 match_any(u32 mask, T v, Site at) {
    return (u32)sim::meet(sim::Kind::Match, mask, (u64)v, 0, at);
}
inline void sync(u32 mask, Site at) { sim::meet(sim::Kind::Sync, mask, 0, 0, at); }
inline void barrier(Site at) { sim::meet_block(at); }
inline void backoff(u32 ns, Site at) { sim::step_aside(ns, at); }
inline u64 ticks() { return sim::ticks(); }

template <class T> inline T* shared_element(T* first, u32 i, u32 length, Site at) {
    if (i >= length) sim::fail_index(i, length, at);
    return first + i;
}
template <class T> inline T* dynamic_shared(u32 offset, u32* length, Site at) {
    return static_cast<T*>(sim::dynamic_shared(offset, sizeof(T), alignof(T), length, at));
}
template <class T> inline T shared_load(const T* p, Site at) {
    T v;
    if (sim::must_ask() && sim::ask_shared_load(p, &v, sizeof(T), at)) return v;
    return *p;
}
template <class T> inline T shared_load_relaxed(const T* p, Site at) {
    T v;
    if (sim::must_ask() && sim::ask_shared_load(p, &v, sizeof(T), at)) return v;
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class T> inline void shared_store(T* p, T v, Site at) {
    if (sim::must_ask() && sim::ask_shared_store(p, &v, sizeof(T), at)) return;
    *p = v;
}
template <class T> inline void shared_store_relaxed(T* p, T v, Site at) {
    if (sim::must_ask() && sim::ask_shared_store(p, &v, sizeof(T), at)) return;
    __atomic_store_n(p, v, sim::publish_order(Order::Relaxed));
}
template <Rmw R, class T> inline T shared_rmw(T* p, T v, Site at) {
    T old;
    if (sim::must_ask() && sim::ask_shared_rmw(p, R, &v, &old, sizeof(T), at)) return old;
    return sim::host_rmw<R>(p, v, sim::publish_order(Order::Relaxed));
}
template <class T> inline T shared_cas(T* p, T expected, T desired, Site at) {
    T old;
    if (sim::must_ask() && sim::ask_shared_cas(p, &expected, &desired, &old, sizeof(T), at)) return old;
    return sim::host_cas(p, expected, desired, sim::publish_order(Order::Relaxed));
}

}  // namespace machine
}  // namespace wk

// A body that every lane calls, and the entry the simulator calls it through.
#define WK_KERNEL_OF(name, Params, threads) WK_KERNEL(name, Params)
#define WK_KERNEL_AT_ONCE(name, Params, threads, blocks) WK_KERNEL(name, Params)
#define WK_KERNEL(name, Params)                                                                    \
    static_assert(sizeof(Params) <= ::wk::kMaxParams, "kernel parameters are at most 4096 bytes"); \
    static_assert(std::is_trivially_copyable<Params>::value, "kernel parameters are plain old data"); \
    WK_STATE(wk_params_##name, sizeof(Params))                                                     \
    static void wk_body_##name(const Params& p);                                                   \
    extern "C" void wk_sim_##name(const void* params) {                                            \
        ::wk::sim::check_params(sizeof(Params));                                                   \
        wk_body_##name(*static_cast<const Params*>(params));                                       \
    }                                                                                              \
    static void wk_body_##name([[maybe_unused]] const Params& p)

// Numbers that the host compares with its own before it runs the kernels.
#define WK_AGREE(name, value) WK_STATE(wk_agree_##name, value)
#define WK_STATE(symbol, value) \
    extern "C" ::wk::u64 symbol() { return (::wk::u64)(value); }

// The tag's address tells this declaration from every other; each block has its own storage for it.
#define WK_SHARED(type, name, count)                                                                              \
    static const char wk_tag_##name = 0;                                                                          \
    const ::wk::Shared<type> name {                                                                               \
        static_cast<type*>(::wk::sim::static_shared(&wk_tag_##name, sizeof(type) * (count), alignof(type),        \
                                                    ::wk::Site::here())),                                         \
            (count)                                                                                               \
    }

#define WK_ASSERT(cond, code)                                                             \
    do {                                                                                  \
        if (!(cond)) ::wk::sim::fail_assert(#cond, (::wk::u32)(code), ::wk::Site::here()); \
    } while (0)
