/*
 * Private to emulate/: switches from one stack to another.
 */
#ifndef RT_EMULATE_SWITCH_H
#define RT_EMULATE_SWITCH_H

#include <stddef.h>

/* Saves where it is to *save and continues at `load`, which an earlier call
 * saved. */
void emu_switch(void **save, void *load);
/* What to load to call `run`, which never returns, on a stack.  If it was used
 * before, `left` is what was saved when that ended. */
void *emu_switch_fresh(char *stack, size_t bytes, void *left,
		       void (*run)(void));

#endif
