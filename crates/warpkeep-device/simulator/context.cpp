#include "context.h"

#include <cstdint>

#if WK_SIM_OWN_SWITCH

// Only the registers that a callee must preserve: the compiler has saved the others around the call. swapcontext would
// also save the signal mask, which is a system call and costs a hundred times as much. It ends with a jump and not
// with a return: the processor would predict a return to where this lane was called, and the other lane stopped one collective
// earlier.
asm(R"(
.text
.globl wk_sim_switch
.hidden wk_sim_switch
.type wk_sim_switch, @function
wk_sim_switch:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    movq %rdx, %rax
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
    .cfi_endproc
.size wk_sim_switch, .-wk_sim_switch
)");

namespace wk::sim {

void prepare(Context& context, void* top, std::size_t, void (*entry)()) {
    std::uintptr_t aligned = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15};
    void** sp = reinterpret_cast<void**>(aligned);
    // An unused return address: a function begins 8 bytes off a multiple of 16.
    *--sp = nullptr;
    *--sp = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; saved++) *--sp = nullptr;
    context.stack_pointer = sp;
}

}  // namespace wk::sim

#else

namespace wk::sim {

void prepare(Context& context, void* top, std::size_t bytes, void (*entry)()) {
    getcontext(&context.saved);
    context.saved.uc_stack.ss_sp = static_cast<char*>(top) - bytes;
    context.saved.uc_stack.ss_size = bytes;
    context.saved.uc_link = nullptr;
    makecontext(&context.saved, entry, 0);
}

}  // namespace wk::sim

#endif
