// How lanes are described to ThreadSanitizer. It sees each as a thread of its own, and sees an order between two of them
// only where the kernel asked for one: the simulator's own switches and counters must not look like synchronisation, or
// they would hide every race. The simulator itself is therefore compiled without the sanitizer, and with WK_SIM_TSAN.
#pragma once

#if defined(WK_SIM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace wk::sim::tsan {

#if defined(WK_SIM_TSAN)
constexpr bool kOn = true;
inline void* this_fiber() { return __tsan_get_current_fiber(); }
inline void* new_fiber() { return __tsan_create_fiber(0); }
inline void end_fiber(void*& fiber) {
    if (fiber != nullptr) __tsan_destroy_fiber(fiber);
    fiber = nullptr;
}
inline void switch_to(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
inline void release(void* token) { __tsan_release(token); }
inline void acquire(void* token) { __tsan_acquire(token); }
#else
constexpr bool kOn = false;
inline void* this_fiber() { return nullptr; }
inline void* new_fiber() { return nullptr; }
inline void end_fiber(void*&) {}
inline void switch_to(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
#endif

}  // namespace wk::sim::tsan
