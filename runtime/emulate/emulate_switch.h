/*
 * emulate_switch.h - private to runtime/emulate*.c: from one stack to another.
 */
#ifndef RT_EMULATE_SWITCH_H
#define RT_EMULATE_SWITCH_H

#include <stddef.h>

/* Goes on where *save of an earlier call was written; returns when another
 * call goes on here. */
void emu_switch(void **save, void *load);
/* What to load to call `run`, which never returns, on a new stack. */
void *emu_switch_fresh(char *stack, size_t bytes, void (*run)(void));

#endif
