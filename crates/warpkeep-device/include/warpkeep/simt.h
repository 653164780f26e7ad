// The seam between kernel source and machine: the only header a kernel includes.
//
// Compiled by NVRTC (or nvcc) it is a thin layer over PTX and needs no other file. Compiled by a host compiler it
// forwards to the simulator through simt_host.h. What is documented here holds on both.
//
// The rules a kernel keeps:
//  - It takes one plain-old-data struct by value: WK_KERNEL(name, Params). Grids and blocks are one-dimensional, and
//    blocks should be whole warps.
//  - It touches global memory through load, store, cas, fetch_* and their kin only, and shared memory through
//    Shared<T> only. A plain dereference works on the GPU, but the simulator neither checks nor delays it.
//  - Every lane that a Tile names takes part in the tile's collectives, at the same place in the source.
//  - Collectives other than sync and sync_block order no memory: fence, or sync, before a lane speaks for others.
//  - Kernel locals own nothing: a lane that fails in the simulator is dropped, and its destructors do not run.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define WK_ON_GPU 1
// An inline function that kernels call.
#define WK_DEVICE __device__ __forceinline__
// On the GPU there are no source positions to carry; see simt_host.h.
#define WK_AT
#define WK_AT0
#define WK_PASS
#define WK_PASS0
#else
#define WK_ON_GPU 0
#define WK_DEVICE inline
#define WK_AT , ::wk::Site at = ::wk::Site::here()
#define WK_AT0 ::wk::Site at = ::wk::Site::here()
#define WK_PASS , at
#define WK_PASS0 at
#endif

namespace wk {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

// Sixteen bytes, moved as one: the largest access of one lane.
struct alignas(16) U128 {
    u64 lo;
    u64 hi;
};

// Who an access or a fence speaks to: the lanes of the block, those of the device, or the host and its memory as well.
enum class Scope { Block, Device, System };

// Weak is an ordinary access that may be moved, merged or torn, for data no other lane is changing. Relaxed is whole
// and coherent at its scope. Acquire, Release and AcqRel order what follows, what precedes, and both.
enum class Order { Weak, Relaxed, Acquire, Release, AcqRel };

// The largest Params of a kernel in bytes.
constexpr u32 kMaxParams = 4096;
// The lanes of a warp.
constexpr u32 kWarp = 32;

}  // namespace wk

#if WK_ON_GPU

// Defines a kernel. Its body sees the parameters as `p`.
#define WK_KERNEL(name, Params) WK_KERNEL_IN_BLOCKS(name, Params, )
// The same for a kernel that is only launched in blocks of `threads`: the compiler lets it have no more registers than there are then.
#define WK_KERNEL_OF(name, Params, threads) WK_KERNEL_IN_BLOCKS(name, Params, __launch_bounds__(threads))
// The same, and a multiprocessor is to have registers for this many of these blocks.
#define WK_KERNEL_AT_ONCE(name, Params, threads, blocks) WK_KERNEL_IN_BLOCKS(name, Params, __launch_bounds__(threads, blocks))
#define WK_KERNEL_IN_BLOCKS(name, Params, bounds)                                                                \
    WK_STATE(wk_params_##name, sizeof(Params))                                                                    \
    static_assert(sizeof(Params) <= ::wk::kMaxParams, "kernel parameters are at most 4096 bytes");                \
    static_assert(__is_trivially_copyable(Params), "kernel parameters are plain old data");                       \
    extern "C" __global__ void bounds name(const Params p)

// States a number that the host must have the same value for: `agree { name = ... }` of the kernel set. Loading the kernels compares both.
// At namespace scope; the value is a constant expression.
#define WK_AGREE(name, value) WK_STATE(wk_agree_##name, value)
// A constant of the compiled code, which is read from the file.
#define WK_STATE(symbol, value)                         \
    extern "C" {                                        \
    extern __constant__ const ::wk::u64 symbol;         \
    __constant__ const ::wk::u64 symbol = (::wk::u64)(value); \
    }

// Declares `count` elements of block-shared memory as Shared<type> name. They hold nothing in particular at first.
#define WK_SHARED(type, name, count)          \
    __shared__ type wk_storage_##name[count]; \
    const ::wk::Shared<type> name { wk_storage_##name }

// Stops the kernel if `cond` does not hold; `code` says where in a report. On the GPU only where WK_CHECKED is defined.
#ifdef WK_CHECKED
#define WK_ASSERT(cond, code) \
    do {                      \
        if (!(cond)) __trap(); \
    } while (0)
#else
#define WK_ASSERT(cond, code) \
    do {                      \
    } while (0)
#endif

// Picks the PTX spelling of a scope or an order: `CALL(spelling, ...)` is a statement. Resolved when compiling.
#define WK_PTX_SCOPE(S, CALL, ...)                                    \
    if constexpr ((S) == ::wk::Scope::Block) { CALL("cta", __VA_ARGS__); } \
    else if constexpr ((S) == ::wk::Scope::Device) { CALL("gpu", __VA_ARGS__); } \
    else { CALL("sys", __VA_ARGS__); }

#define WK_PTX_LD(scope, order, type, reg, v, p) \
    asm volatile("ld." order "." scope ".global." type " %0, [%1];" : "=" reg(v) : "l"(p) : "memory")
#define WK_PTX_ST(scope, order, type, reg, v, p) \
    asm volatile("st." order "." scope ".global." type " [%0], %1;" ::"l"(p), reg(v) : "memory")
#define WK_PTX_ATOM(scope, order, op, reg, o, p, v) \
    asm volatile("atom." order "." scope ".global." op " %0, [%1], %2;" : "=" reg(o) : "l"(p), reg(v) : "memory")
#define WK_PTX_CAS(scope, order, type, reg, o, p, e, d)                                                     \
    asm volatile("atom." order "." scope ".global.cas." type " %0, [%1], %2, %3;"                           \
                 : "=" reg(o)                                                                               \
                 : "l"(p), reg(e), reg(d)                                                                   \
                 : "memory")
// A 16-byte register is made of two 8-byte ones inside the instruction's own scope.
#define WK_PTX_LD128(scope, order, v, p)                                                                    \
    asm volatile("{ .reg .b128 t; ld." order "." scope ".global.b128 t, [%2]; mov.b128 {%0, %1}, t; }"      \
                 : "=l"((v).lo), "=l"((v).hi)                                                               \
                 : "l"(p)                                                                                   \
                 : "memory")
#define WK_PTX_ST128(scope, order, v, p)                                                                    \
    asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2}; st." order "." scope ".global.b128 [%0], t; }" ::"l"(p), \
                 "l"((v).lo), "l"((v).hi)                                                                   \
                 : "memory")
#define WK_PTX_EXCH128(scope, order, o, p, v)                                                               \
    asm volatile("{ .reg .b128 t, u; mov.b128 u, {%3, %4}; atom." order "." scope                           \
                 ".global.exch.b128 t, [%2], u; mov.b128 {%0, %1}, t; }"                                    \
                 : "=l"((o).lo), "=l"((o).hi)                                                               \
                 : "l"(p), "l"((v).lo), "l"((v).hi)                                                         \
                 : "memory")
#define WK_PTX_CAS128(scope, order, o, p, e, d)                                                             \
    asm volatile("{ .reg .b128 t, x, y; mov.b128 x, {%3, %4}; mov.b128 y, {%5, %6}; atom." order "." scope  \
                 ".global.cas.b128 t, [%2], x, y; mov.b128 {%0, %1}, t; }"                                  \
                 : "=l"((o).lo), "=l"((o).hi)                                                               \
                 : "l"(p), "l"((e).lo), "l"((e).hi), "l"((d).lo), "l"((d).hi)                               \
                 : "memory")

namespace wk {
namespace machine {

enum class Rmw { Add, Or, And, Max, Min, Exchange };
enum class Hint { Once, L2, Streaming };

WK_DEVICE u32 thread_index() { return threadIdx.x; }
WK_DEVICE u32 block_index() { return blockIdx.x; }
WK_DEVICE u32 block_size() { return blockDim.x; }
WK_DEVICE u32 grid_size() { return gridDim.x; }
WK_DEVICE u32 multiprocessor() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// The unsigned word that carries a value of `Bytes` bytes through a register.
template <u32 Bytes> struct Word;
template <> struct Word<1> { using Type = u8; };
template <> struct Word<2> { using Type = u16; };
template <> struct Word<4> { using Type = u32; };
template <> struct Word<8> { using Type = u64; };

#define WK_PTX_LD_SIZED(order)                                                                        \
    if constexpr (sizeof(T) == 16) { WK_PTX_SCOPE(S, WK_PTX_LD128, order, v, p) }                     \
    else if constexpr (sizeof(T) == 8) { u64 w; WK_PTX_SCOPE(S, WK_PTX_LD, order, "b64", "l", w, p) v = (T)w; } \
    else if constexpr (sizeof(T) == 4) { u32 w; WK_PTX_SCOPE(S, WK_PTX_LD, order, "b32", "r", w, p) v = (T)w; } \
    else { u16 w; WK_PTX_SCOPE(S, WK_PTX_LD, order, "b16", "h", w, p) v = (T)w; }

#define WK_PTX_ST_SIZED(order)                                                                        \
    if constexpr (sizeof(T) == 16) { WK_PTX_SCOPE(S, WK_PTX_ST128, order, v, p) }                     \
    else if constexpr (sizeof(T) == 8) { WK_PTX_SCOPE(S, WK_PTX_ST, order, "b64", "l", (u64)v, p) }   \
    else if constexpr (sizeof(T) == 4) { WK_PTX_SCOPE(S, WK_PTX_ST, order, "b32", "r", (u32)v, p) }   \
    else { WK_PTX_SCOPE(S, WK_PTX_ST, order, "b16", "h", (u16)v, p) }

template <Scope S, Order O, class T> WK_DEVICE T load(const T* p) {
    T v;
    if constexpr (O == Order::Weak && sizeof(T) == 16) {
        // Through the vector type, or it may become two accesses.
        ulonglong2 w = *(const ulonglong2*)p;
        v = T{w.x, w.y};
    } else if constexpr (O == Order::Weak) {
        v = *p;
    } else if constexpr (O == Order::Acquire) {
        WK_PTX_LD_SIZED("acquire")
    } else {
        WK_PTX_LD_SIZED("relaxed")
    }
    return v;
}

template <Scope S, Order O, class T> WK_DEVICE void store(T* p, T v) {
    if constexpr (O == Order::Weak && sizeof(T) == 16) {
        *(ulonglong2*)p = ulonglong2{v.lo, v.hi};
    } else if constexpr (O == Order::Weak) {
        *p = v;
    } else if constexpr (O == Order::Release) {
        WK_PTX_ST_SIZED("release")
    } else {
        WK_PTX_ST_SIZED("relaxed")
    }
}

#define WK_PTX_ORDERED(O, MACRO)                                      \
    if constexpr ((O) == Order::Relaxed) { MACRO("relaxed") }         \
    else if constexpr ((O) == Order::Acquire) { MACRO("acquire") }    \
    else if constexpr ((O) == Order::Release) { MACRO("release") }    \
    else { MACRO("acq_rel") }

#define WK_PTX_RMW_WORD(order, name, letter)                                                                   \
    if constexpr (sizeof(T) == 8) { u64 o; WK_PTX_SCOPE(S, WK_PTX_ATOM, order, name letter "64", "l", o, p, (u64)v) old = (T)o; } \
    else { u32 o; WK_PTX_SCOPE(S, WK_PTX_ATOM, order, name letter "32", "r", o, p, (u32)v) old = (T)o; }

#define WK_PTX_RMW_OP(order)                                                                 \
    if constexpr (R == Rmw::Add) { WK_PTX_RMW_WORD(order, "add.", "u") }                     \
    else if constexpr (R == Rmw::Or) { WK_PTX_RMW_WORD(order, "or.", "b") }                  \
    else if constexpr (R == Rmw::And) { WK_PTX_RMW_WORD(order, "and.", "b") }                \
    else if constexpr (R == Rmw::Max) { WK_PTX_RMW_WORD(order, "max.", "u") }                \
    else if constexpr (R == Rmw::Min) { WK_PTX_RMW_WORD(order, "min.", "u") }                \
    else if constexpr (sizeof(T) == 16) { WK_PTX_SCOPE(S, WK_PTX_EXCH128, order, old, p, v) } \
    else { WK_PTX_RMW_WORD(order, "exch.", "b") }

template <Rmw R, Scope S, Order O, class T> WK_DEVICE T rmw(T* p, T v) {
    T old;
    WK_PTX_ORDERED(O, WK_PTX_RMW_OP)
    return old;
}

#define WK_PTX_CAS_SIZED(order)                                                                                        \
    if constexpr (sizeof(T) == 16) { WK_PTX_SCOPE(S, WK_PTX_CAS128, order, old, p, expected, desired) }                \
    else if constexpr (sizeof(T) == 8) { u64 o; WK_PTX_SCOPE(S, WK_PTX_CAS, order, "b64", "l", o, p, (u64)expected, (u64)desired) old = (T)o; } \
    else { u32 o; WK_PTX_SCOPE(S, WK_PTX_CAS, order, "b32", "r", o, p, (u32)expected, (u32)desired) old = (T)o; }

template <Scope S, Order O, class T> WK_DEVICE T cas(T* p, T expected, T desired) {
    T old;
    WK_PTX_ORDERED(O, WK_PTX_CAS_SIZED)
    return old;
}

template <Hint H, class T> WK_DEVICE T load_hint(const T* p) {
    if constexpr (sizeof(T) == 16) {
        T v;
        if constexpr (H == Hint::Once)
            asm volatile("ld.global.nc.L1::no_allocate.v2.u64 {%0, %1}, [%2];" : "=l"(v.lo), "=l"(v.hi) : "l"(p));
        else
            asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];" : "=l"(v.lo), "=l"(v.hi) : "l"(p) : "memory");
        return v;
    } else if constexpr (sizeof(T) == 8) {
        u64 v;
        if constexpr (H == Hint::Once)
            asm volatile("ld.global.nc.L1::no_allocate.u64 %0, [%1];" : "=l"(v) : "l"(p));
        else
            asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
        return (T)v;
    } else {
        u32 v;
        if constexpr (H == Hint::Once)
            asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
        else
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        return (T)v;
    }
}

template <class T> WK_DEVICE void store_streaming(T* p, T v) {
    if constexpr (sizeof(T) == 16)
        asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.lo), "l"(v.hi) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("st.global.cs.u64 [%0], %1;" ::"l"(p), "l"((u64)v) : "memory");
    else
        asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"((u32)v) : "memory");
}

WK_DEVICE void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

template <Scope S> WK_DEVICE void fence() {
    if constexpr (S == Scope::Block)
        asm volatile("fence.acq_rel.cta;" ::: "memory");
    else if constexpr (S == Scope::Device)
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    else
        asm volatile("fence.acq_rel.sys;" ::: "memory");
}

// The sequentially consistent form is the one that is known to hold writes back until the link has taken them.
WK_DEVICE void persist_fence() { asm volatile("fence.sc.sys;" ::: "memory"); }

WK_DEVICE u32 ballot(u32 mask, bool yes) { return __ballot_sync(mask, yes); }
WK_DEVICE bool any(u32 mask, bool yes) { return __any_sync(mask, yes); }
WK_DEVICE bool all(u32 mask, bool yes) { return __all_sync(mask, yes); }
template <class T> WK_DEVICE T shfl(u32 mask, T v, u32 rank, u32 width) { return __shfl_sync(mask, v, rank, width); }
template <class T> WK_DEVICE T shfl_xor(u32 mask, T v, u32 bits, u32 width) { return __shfl_xor_sync(mask, v, bits, width); }
template <class T> WK_DEVICE u32 match_any(u32 mask, T v) { return __match_any_sync(mask, v); }
WK_DEVICE void sync(u32 mask) { __syncwarp(mask); }
WK_DEVICE void barrier() { __syncthreads(); }

WK_DEVICE u32 popc(u32 x) { return __popc(x); }
WK_DEVICE u32 popc(u64 x) { return __popcll(x); }
WK_DEVICE u32 ffs(u32 x) { return __ffs(x); }
WK_DEVICE u32 ffs(u64 x) { return __ffsll(x); }
WK_DEVICE u32 clz(u32 x) { return __clz(x); }
WK_DEVICE u32 clz(u64 x) { return __clzll(x); }
WK_DEVICE void backoff(u32 ns) { __nanosleep(ns); }
WK_DEVICE u64 ticks() { return clock64(); }

template <class T> WK_DEVICE T shared_load(const T* p) { return *p; }
template <class T> WK_DEVICE T shared_load_relaxed(const T* p) { return *(const volatile T*)p; }
template <class T> WK_DEVICE void shared_store(T* p, T v) { *p = v; }
template <class T> WK_DEVICE void shared_store_relaxed(T* p, T v) { *(volatile T*)p = v; }
template <Rmw R, class T> WK_DEVICE T shared_rmw(T* p, T v) {
    using W = typename Word<sizeof(T)>::Type;
    W* w = (W*)p;
    if constexpr (R == Rmw::Add) return (T)atomicAdd(w, (W)v);
    else if constexpr (R == Rmw::Or) return (T)atomicOr(w, (W)v);
    else if constexpr (R == Rmw::And) return (T)atomicAnd(w, (W)v);
    else if constexpr (R == Rmw::Max) return (T)atomicMax(w, (W)v);
    else if constexpr (R == Rmw::Min) return (T)atomicMin(w, (W)v);
    else return (T)atomicExch(w, (W)v);
}
template <class T> WK_DEVICE T shared_cas(T* p, T expected, T desired) {
    using W = typename Word<sizeof(T)>::Type;
    return (T)atomicCAS((W*)p, (W)expected, (W)desired);
}

}  // namespace machine
}  // namespace wk

#else
#include "warpkeep/simt_host.h"
#endif

namespace wk {

// This lane's thread in its block; the block in the grid; threads of a block; blocks of the grid.
WK_DEVICE u32 thread_index() { return machine::thread_index(); }
WK_DEVICE u32 block_index() { return machine::block_index(); }
WK_DEVICE u32 block_size() { return machine::block_size(); }
WK_DEVICE u32 grid_size() { return machine::grid_size(); }
// The multiprocessor that runs the block; more than there are can have a number. It says what is near, and nothing may depend on it but how long things take.
WK_DEVICE u32 multiprocessor() { return machine::multiprocessor(); }
// This lane's thread in the grid, and the threads of the grid: what a grid-stride loop needs.
WK_DEVICE u64 global_index() { return (u64)block_index() * block_size() + thread_index(); }
WK_DEVICE u64 global_size() { return (u64)grid_size() * block_size(); }
// This lane in its warp; the warp in its block; warps of a block; the warp in the grid.
WK_DEVICE u32 lane() { return thread_index() % kWarp; }
WK_DEVICE u32 warp_in_block() { return thread_index() / kWarp; }
WK_DEVICE u32 warps_per_block() { return (block_size() + kWarp - 1) / kWarp; }
WK_DEVICE u64 global_warp() { return (u64)block_index() * warps_per_block() + warp_in_block(); }

// Set bits; the lowest set bit counted from 1 (0 if none); zero bits above the highest set one.
WK_DEVICE u32 popc(u32 x) { return machine::popc(x); }
WK_DEVICE u32 popc(u64 x) { return machine::popc(x); }
WK_DEVICE u32 ffs(u32 x) { return machine::ffs(x); }
WK_DEVICE u32 ffs(u64 x) { return machine::ffs(x); }
WK_DEVICE u32 clz(u32 x) { return machine::clz(x); }
WK_DEVICE u32 clz(u64 x) { return machine::clz(x); }

// Reads global memory: whole words of 1 (Weak only), 2, 4, 8 or 16 bytes. Order is Weak, Relaxed or Acquire.
template <Scope S = Scope::Device, Order O = Order::Weak, class T> WK_DEVICE T load(const T* p WK_AT) {
    static_assert(O == Order::Weak || O == Order::Relaxed || O == Order::Acquire, "a load releases nothing");
    static_assert(O == Order::Weak || sizeof(T) > 1, "bytes are loaded weakly");
    return machine::load<S, O>(p WK_PASS);
}

// Writes global memory: whole words of 1 (Weak only), 2, 4, 8 or 16 bytes. Order is Weak, Relaxed or Release.
template <Scope S = Scope::Device, Order O = Order::Weak, class T>
WK_DEVICE void store(T* p, decltype(T{}) v WK_AT) {
    static_assert(O == Order::Weak || O == Order::Relaxed || O == Order::Release, "a store acquires nothing");
    static_assert(O == Order::Weak || sizeof(T) > 1, "bytes are stored weakly");
    machine::store<S, O, T>(p, v WK_PASS);
}

// Reads what does not change during the launch, and leaves no trace of it in the first cache. 4, 8 or 16 bytes.
template <class T> WK_DEVICE T load_once(const T* p WK_AT) {
    static_assert(sizeof(T) >= 4, "4, 8 or 16 bytes");
    return machine::load_hint<machine::Hint::Once>(p WK_PASS);
}
// Reads past the first cache, from the one the whole device shares. Weak. 4, 8 or 16 bytes.
template <class T> WK_DEVICE T load_l2(const T* p WK_AT) {
    static_assert(sizeof(T) >= 4, "4, 8 or 16 bytes");
    return machine::load_hint<machine::Hint::L2>(p WK_PASS);
}
// Writes what will not be read soon. Weak. 4, 8 or 16 bytes.
template <class T> WK_DEVICE void store_streaming(T* p, decltype(T{}) v WK_AT) {
    static_assert(sizeof(T) >= 4, "4, 8 or 16 bytes");
    machine::store_streaming<T>(p, v WK_PASS);
}
// Asks for the line at `p`; needs not be mapped.
WK_DEVICE void prefetch(const void* p) { machine::prefetch(p); }

// Stores `desired` if `*p` is `expected`; gives what was there. 4, 8 or 16 bytes.
template <Scope S = Scope::Device, Order O = Order::AcqRel, class T>
WK_DEVICE T cas(T* p, decltype(T{}) expected, decltype(T{}) desired WK_AT) {
    static_assert(O != Order::Weak, "atomics are at least relaxed");
    static_assert(sizeof(T) >= 4, "4, 8 or 16 bytes");
    return machine::cas<S, O, T>(p, expected, desired WK_PASS);
}

// Each changes `*p` in one step and gives what was there. Unsigned words of 4 or 8 bytes; exchange takes 16 too.
#define WK_DEFINE_RMW(name, which, largest)                                                   \
    template <Scope S = Scope::Device, Order O = Order::Relaxed, class T>                     \
    WK_DEVICE T name(T* p, decltype(T{}) v WK_AT) {                                           \
        static_assert(O != Order::Weak, "atomics are at least relaxed");                      \
        static_assert(sizeof(T) >= 4 && sizeof(T) <= (largest), "a word of a supported size"); \
        return machine::rmw<machine::Rmw::which, S, O, T>(p, v WK_PASS);                      \
    }
WK_DEFINE_RMW(fetch_add, Add, 8)
WK_DEFINE_RMW(fetch_or, Or, 8)
WK_DEFINE_RMW(fetch_and, And, 8)
WK_DEFINE_RMW(fetch_max, Max, 8)
WK_DEFINE_RMW(fetch_min, Min, 8)
WK_DEFINE_RMW(exchange, Exchange, 16)
#undef WK_DEFINE_RMW

// Orders what this lane did, and what it learnt from others, before what it does next, for observers in the scope.
template <Scope S = Scope::Device> WK_DEVICE void fence(WK_AT0) { machine::fence<S>(WK_PASS0); }
// Stores before it reach the image before stores after it. Also a fence of System scope.
WK_DEVICE void persist_fence(WK_AT0) { machine::persist_fence(WK_PASS0); }

// Waits for all lanes of the block that have not returned; orders their memory among them.
WK_DEVICE void sync_block(WK_AT0) { machine::barrier(WK_PASS0); }
// Waits for the whole warp; orders its memory within it.
WK_DEVICE void sync_warp(WK_AT0) { machine::sync(~0u WK_PASS); }
// Lets others run for about `ns` nanoseconds: for loops that wait.
WK_DEVICE void backoff(u32 ns WK_AT) { machine::backoff(ns WK_PASS); }
// A counter that rises while this lane runs. Only differences taken by one lane mean anything.
WK_DEVICE u64 ticks() { return machine::ticks(); }

// N neighbouring lanes of a warp that work as one. All of them call each collective, at the same place.
template <u32 N> struct Tile {
    static_assert(N == 4 || N == 8 || N == 16 || N == 32, "a tile has 4, 8, 16 or 32 lanes");
    static constexpr u32 size = N;
    // One bit a lane, all set.
    static constexpr u32 full = N == 32 ? ~0u : (1u << (N % 32)) - 1;

    // This lane in the tile; the tile in the warp; the tile's first lane in the warp; its lanes in the warp as bits.
    WK_DEVICE static u32 rank() { return lane() % N; }
    WK_DEVICE static u32 index() { return lane() / N; }
    WK_DEVICE static u32 base() { return lane() - rank(); }
    WK_DEVICE static u32 mask() { return full << base(); }

    // Bit r is set if the lane of rank r said yes.
    WK_DEVICE u32 ballot(bool yes WK_AT) const { return (machine::ballot(mask(), yes WK_PASS) >> base()) & full; }
    // Whether some lane, or every lane, said yes.
    WK_DEVICE bool any(bool yes WK_AT) const { return machine::any(mask(), yes WK_PASS); }
    WK_DEVICE bool all(bool yes WK_AT) const { return machine::all(mask(), yes WK_PASS); }
    // What the lane of that rank (taken modulo N) gave; u32 or u64.
    template <class T> WK_DEVICE T shfl(T v, u32 rank WK_AT) const {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
        return machine::shfl(mask(), v, rank, N WK_PASS);
    }
    // The same, of the lane of that rank (taken modulo M) among the M neighbours that this lane is one of.
    template <u32 M, class T> WK_DEVICE T shfl_among(T v, u32 rank WK_AT) const {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
        static_assert(M <= N && (M & (M - 1)) == 0, "a power of two of lanes, all of them in the tile");
        return machine::shfl(mask(), v, rank, M WK_PASS);
    }
    // What the lane gave whose rank is this one's with `bits` flipped; `bits` is less than N.
    template <class T> WK_DEVICE T shfl_xor(T v, u32 bits WK_AT) const {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
        return machine::shfl_xor(mask(), v, bits, N WK_PASS);
    }
    // The ranks, as bits, of the lanes that gave the same value as this one; u32 or u64.
    template <class T> WK_DEVICE u32 match_any(T v WK_AT) const {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
        return (machine::match_any(mask(), v WK_PASS) >> base()) & full;
    }
    // The same for numbers below 2^kBits. For few bits one ballot a bit takes less time on a GPU than the instruction that compares all of them.
    template <u32 kBits> WK_DEVICE u32 match_bits(u32 v WK_AT) const {
#if WK_ON_GPU
        u32 same = full;
        for (u32 bit = 0; bit < kBits; bit++) {
            bool mine = v >> bit & 1;
            u32 set = ballot(mine);
            same &= mine ? set : ~set;
        }
        return same;
#else
        return match_any(v WK_PASS);
#endif
    }
    // True in the lowest lane of those that want, and in no other.
    WK_DEVICE bool elect(bool wants WK_AT) const {
        u32 wanting = ballot(wants WK_PASS);
        return wants && wk::ffs(wanting) == rank() + 1;
    }
    // Waits for the tile; orders its memory within it. The one collective that may be met from different places.
    WK_DEVICE void sync(WK_AT0) const { machine::sync(mask() WK_PASS); }
    // The tile reads together: the lane of rank r gets base[r] if r < count, and `otherwise` if not. One access a line.
    template <Scope S = Scope::Device, Order O = Order::Weak, class T>
    WK_DEVICE T read(const T* first, u32 count, decltype(T{}) otherwise WK_AT) const {
        return rank() < count ? load<S, O>(first + rank() WK_PASS) : otherwise;
    }
};

// The whole warp as a tile.
using Warp = Tile<32>;

// Block-shared memory, as WK_SHARED and dynamic_shared give it. Atomics are relaxed, at the block's scope.
template <class T> struct Shared {
    // As accesses of global memory: what the simulator checks and delays are words that lie at multiples of their size.
    static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "elements of shared memory have 1, 2, 4, 8 or 16 bytes");
    static_assert(alignof(T) >= sizeof(T), "elements of shared memory are aligned to their size");
    T* first;
#if !WK_ON_GPU
    u32 length;
    T* element(u32 i WK_AT) const { return machine::shared_element(first, i, length WK_PASS); }
#else
    WK_DEVICE T* element(u32 i) const { return first + i; }
#endif
    // Ordinary access: ordered by sync_block, Tile::sync and fences.
    WK_DEVICE T load(u32 i WK_AT) const { return machine::shared_load(element(i WK_PASS) WK_PASS); }
    WK_DEVICE void store(u32 i, T v WK_AT) const { machine::shared_store(element(i WK_PASS), v WK_PASS); }
    // For words that other lanes change meanwhile, in loops that wait.
    WK_DEVICE T load_relaxed(u32 i WK_AT) const { return machine::shared_load_relaxed(element(i WK_PASS) WK_PASS); }
    WK_DEVICE void store_relaxed(u32 i, T v WK_AT) const { machine::shared_store_relaxed(element(i WK_PASS), v WK_PASS); }
    // Each changes element `i` in one step and gives what was there. 4 or 8 bytes, unsigned.
    WK_DEVICE T fetch_add(u32 i, T v WK_AT) const { return change<machine::Rmw::Add>(i, v WK_PASS); }
    WK_DEVICE T fetch_or(u32 i, T v WK_AT) const { return change<machine::Rmw::Or>(i, v WK_PASS); }
    WK_DEVICE T fetch_and(u32 i, T v WK_AT) const { return change<machine::Rmw::And>(i, v WK_PASS); }
    WK_DEVICE T fetch_max(u32 i, T v WK_AT) const { return change<machine::Rmw::Max>(i, v WK_PASS); }
    WK_DEVICE T fetch_min(u32 i, T v WK_AT) const { return change<machine::Rmw::Min>(i, v WK_PASS); }
    WK_DEVICE T exchange(u32 i, T v WK_AT) const { return change<machine::Rmw::Exchange>(i, v WK_PASS); }
    WK_DEVICE T cas(u32 i, T expected, T desired WK_AT) const {
        return machine::shared_cas(element(i WK_PASS), expected, desired WK_PASS);
    }
    template <machine::Rmw R> WK_DEVICE T change(u32 i, T v WK_AT) const {
        return machine::shared_rmw<R>(element(i WK_PASS), v WK_PASS);
    }
};

// The launch's shared_bytes from byte `offset` on, as elements of T.
template <class T> WK_DEVICE Shared<T> dynamic_shared(u32 offset = 0 WK_AT) {
#if WK_ON_GPU
    extern __shared__ __align__(16) u8 wk_dynamic_shared_bytes[];
    return Shared<T>{(T*)(wk_dynamic_shared_bytes + offset)};
#else
    u32 length = 0;
    T* first = machine::dynamic_shared<T>(offset, &length WK_PASS);
    return Shared<T>{first, length};
#endif
}

}  // namespace wk
