// Changing from one stack to another.
#ifndef TESTS_SHIM_SWITCH_H
#define TESTS_SHIM_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)

typedef struct Stack {
    void *sp;
} Stack;

// Saves where the caller stands in *from and goes on where *to stands.
void shim_switch(Stack *from, Stack *to);
__asm__(".text\n"
        ".globl shim_switch\n"
        ".type shim_switch, @function\n"
        "shim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size shim_switch, .-shim_switch\n");

// A stack that begins in [body], which never returns.
static inline void stack_make(Stack *s, char *memory, size_t bytes, void (*body)(void))
{
    uintptr_t *top = (uintptr_t *)(((uintptr_t)memory + bytes) & ~(uintptr_t)15);
    *--top = 0; // the return address of body: none
    *--top = (uintptr_t)body;
    for (int i = 0; i < 6; i++) *--top = 0;
    s->sp = top;
}

#else
#include <ucontext.h>

typedef struct Stack {
    ucontext_t at;
} Stack;

static inline void shim_switch(Stack *from, Stack *to)
{
    swapcontext(&from->at, &to->at);
}

static inline void stack_make(Stack *s, char *memory, size_t bytes, void (*body)(void))
{
    getcontext(&s->at);
    s->at.uc_stack.ss_sp = memory;
    s->at.uc_stack.ss_size = bytes;
    s->at.uc_link = NULL;
    makecontext(&s->at, body, 0);
}
#endif

#endif
