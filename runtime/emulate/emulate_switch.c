/*
 * emulate_switch.c - from one stack to another.  Eight registers are all that
 * a called function must keep (System V ABI, AMD64); swapcontext also asks the
 * system about signals, which takes 50 times as long.
 */
#include "runtime/emulate/emulate_switch.h"

#include <string.h>

/* A sanitizer takes what was left on a stack for what is there still. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

static void
forget(char *stack, size_t bytes)
{
	ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
}
#else
static void
forget(char *stack, size_t bytes)
{
	(void)stack;
	(void)bytes;
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
emu_switch_fresh(char *stack, size_t bytes, void (*run)(void))
{
	/* six registers, where to, and an address to return to: on 16 bytes
	 * less 8 when `run` begins, as behind a call */
	void **at = (void **)(void *)(stack + bytes - 64);

	forget(stack, bytes);
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
emu_switch_fresh(char *stack, size_t bytes, void (*run)(void))
{
	size_t room = (sizeof(ucontext_t) + 127) / 64 * 64;
	ucontext_t *c = (void *)(stack + bytes - room);

	forget(stack, bytes);
	getcontext(c);
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = bytes - room;
	c->uc_link = NULL;
	makecontext(c, run, 0);
	return c;
}

#endif
