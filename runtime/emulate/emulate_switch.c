/*
 * Switches from one stack to another.  A called function must preserve eight
 * registers (System V ABI, AMD64); swapcontext also changes the signal mask by
 * a system call, which takes 50 times as long.
 */
#include "runtime/emulate/emulate_switch.h"

#include <string.h>

/* A sanitizer's marks of frames that nothing returns to must not stay on a
 * stack that is used again. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

static void
forget(char *from, const char *to)
{
	ASAN_UNPOISON_MEMORY_REGION(from, (size_t)(to - from));
}
#else
static void
forget(char *from, const char *to)
{
	(void)from;
	(void)to;
}
#endif

#if defined(__x86_64__)

__asm__(".text\n"
	".globl emu_switch\n"
	".hidden emu_switch\n"
	".type emu_switch, @function\n"
	"emu_switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size emu_switch, . - emu_switch\n");

void *
emu_switch_fresh(char *stack, size_t bytes, void *left, void (*run)(void))
{
	/* six registers, where to continue, and a return address: aligned to 16
	 * bytes less 8 when `run` begins, as after a call */
	void **at = (void **)(void *)(stack + bytes - 64);

	/* Frames below have returned, and taken their marks away.  A mark for
	 * each eight bytes of a stack would take longer than most threads. */
	if (left) {
		forget(left, stack + bytes);
	}
	memset(at, 0, 64);
	memcpy(&at[6], &run, sizeof run);
	return at;
}

#else

#include <ucontext.h>

void
emu_switch(void **save, void *load)
{
	ucontext_t here;

	*save = &here;
	swapcontext(&here, load);
}

void *
emu_switch_fresh(char *stack, size_t bytes, void *left, void (*run)(void))
{
	size_t context_bytes = (sizeof(ucontext_t) + 127) / 64 * 64;
	ucontext_t *c = (void *)(stack + bytes - context_bytes);

	(void)left;	/* it lies within the frame that was left */
	forget(stack, stack + bytes);
	getcontext(c);
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = bytes - context_bytes;
	c->uc_link = NULL;
	makecontext(c, run, 0);
	return c;
}

#endif
