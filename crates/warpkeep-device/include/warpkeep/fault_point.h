// Fault points: named steps of a protocol that a test can have left out, to prove that the step is needed.
//
//     if (!WK_FAULT_POINT("gphash.published")) persist_fence();
//
// The macro is true while a test has that point active (warpkeep_device::fault::activate), and only in kernels that were compiled for the
// simulator with fault points, which builds with the feature `testing` of warpkeep-device have. Everywhere else it is the constant false.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// What a fault point is known by: FNV-1a of its name, as warpkeep_device::fault::id has it; never 0, which stands for none. A constant, so that
// an enum can list the fault points of a program: enum class Step : u64 { Published = fault_id("gphash.published") }.
template <u32 N> WK_DEVICE constexpr u64 fault_id(const char (&name)[N]) {
    u64 hash = 0xcbf29ce484222325ull;
    for (u32 i = 0; i + 1 < N; i++) hash = (hash ^ (u8)name[i]) * 0x100000001b3ull;
    return hash | 1;
}

}  // namespace wk

#if !WK_ON_GPU && defined(WK_FAULT_POINTS)
// The id of the active fault point, 0 for none; and how often one was reached while it was active.
extern "C" wk::u64 wk_fault_active;
extern "C" wk::u64 wk_fault_reached;
namespace wk {
inline bool is_fault_active(u64 id) {
    if (__atomic_load_n(&wk_fault_active, __ATOMIC_RELAXED) != id) return false;
    __atomic_fetch_add(&wk_fault_reached, 1, __ATOMIC_RELAXED);
    return true;
}
}  // namespace wk
#else
namespace wk {
WK_DEVICE constexpr bool is_fault_active(u64) { return false; }
}  // namespace wk
#endif

#define WK_FAULT_POINT(name) ::wk::is_fault_active(::wk::fault_id(name))
