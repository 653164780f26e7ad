// One flow of control with its own stack, and the switch between two of them.
#pragma once
#include <cstddef>

// Our own switch where there is one; WK_SIM_UCONTEXT asks for the portable one all the same.
#if defined(__x86_64__) && !defined(WK_SIM_UCONTEXT)
#define WK_SIM_OWN_SWITCH 1
#else
#define WK_SIM_OWN_SWITCH 0
#include <ucontext.h>
#endif

namespace wk::sim {

// Where a flow of control goes on when it is switched to.
struct Context {
#if WK_SIM_OWN_SWITCH
    void* stack_pointer = nullptr;
#else
    ucontext_t saved;
    unsigned long long value = 0;
#endif
};

// Makes `context` begin at `entry`, which must not return, on the stack of `bytes` bytes that ends below `top`.
void prepare(Context& context, void* top, std::size_t bytes, void (*entry)());

// Stops here as `from` and goes on as `to`, where the switch that stopped it returns `value`. A context that begins does
// not get it.
#if WK_SIM_OWN_SWITCH
extern "C" unsigned long long wk_sim_switch(Context* from, const Context* to, unsigned long long value);
inline unsigned long long switch_context(Context& from, Context& to, unsigned long long value) {
    return wk_sim_switch(&from, &to, value);
}
#else
inline unsigned long long switch_context(Context& from, Context& to, unsigned long long value) {
    to.value = value;
    swapcontext(&from.saved, &to.saved);
    return from.value;
}
#endif

}  // namespace wk::sim
