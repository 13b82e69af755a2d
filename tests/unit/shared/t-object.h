/*
 * For tests of what LLVM makes: the module's object becomes a shared one by
 * the C compiler, and is loaded.
 */
#ifndef T_OBJECT_H
#define T_OBJECT_H

#include "codegen/link/compile_cache.h"
#include "codegen/llvm/ll.h"
#include "tests/unit/shared/t-cpu.h"
#include "tests/unit/shared/t-left-out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dlfcn.h>

struct t_object {
	struct ll *l;
	struct arena *a;
	const char *cpu, *features;
	bool draft;
	void *lib;
	char path[64];
};

/*
 * Three objects of four are drafts, which LLVM makes in a third of the time;
 * under sanitizers, which see nothing of LLVM's, all are.
 */
static inline bool
t_object_draft(void)
{
	static uint32_t begun;

	return t_short() || begun++ % 4 != 0;
}

static inline struct t_object *
t_object_begin(struct arena *a, const char *cpu)
{
	struct t_object *o = arena_alloc(a, sizeof *o);
	const char *why = NULL;

	o->a = a;
	o->draft = t_object_draft();
	o->l = ll_new(a, cpu, o->draft, &why);
	if (!o->l) {
		fail_msg("%s", why);
	}
	o->cpu = cpu;
	o->features = ll_features(o->l);
	return o;
}

/* Verifies, optimises, links and loads; the CPU is ready to run it. */
static inline void
t_object_end(struct t_object *o)
{
	const char *cc = getenv("CC"), *why = NULL;
	struct cg_cache cache;
	char *command;
	struct buf b;
	FILE *f;

	buf_init(&b, o->a);
	cg_cache_open(&cache, o->a);
	if (!ll_verify(o->l, &why) ||
	    !ll_compile(o->l, o->draft ? LL_QUICKLY : LL_WELL, &cache, &b,
			&why)) {
		fail_msg("%s", why);
	}
	ll_free(o->l);
	strcpy(o->path, "t-object-XXXXXX");
	close(mkstemp(o->path));
	f = fopen(o->path, "wb");
	assert_non_null(f);
	assert_true(fwrite(b.at, 1, b.n, f) == b.n);
	assert_int_equal(fclose(f), 0);
	/* Functions of libc and libm are found in this process: to look through
	 * their names takes most of what it takes to link. */
	command = arena_printf(o->a, "%s -shared -nostdlib -o %s.so -x none %s "
			       "-lgcc", cc ? cc : "cc", o->path, o->path);
	assert_int_equal(system(command), 0);
	o->lib = dlopen(arena_printf(o->a, "./%s.so", o->path), RTLD_NOW);
	if (!o->lib) {
		fail_msg("%s", dlerror());
	}
	unlink(o->path);
	unlink(arena_printf(o->a, "%s.so", o->path));
	t_cpu_begin(o->cpu, o->features);
}

static inline void *
t_object_find(struct t_object *o, const char *name)
{
	void *p = dlsym(o->lib, name);

	if (!p) {
		fail_msg("no %s", name);
	}
	return p;
}

static inline void
t_object_close(struct t_object *o)
{
	t_cpu_end();
	dlclose(o->lib);
}

/* The state of a group: an arena. */
static inline int
t_object_setup(void **state)
{
	static struct mem mem;
	static struct arena a;

	mem_init(&mem);
	arena_init(&a, &mem);
	*state = &a;
	return 0;
}

static inline int
t_object_teardown(void **state)
{
	arena_release(*state);
	return 0;
}

/* After all tests of code: prints as which CPUs it was run. */
static inline int
t_object_done(void **state)
{
	t_cpus_say();
	return state && *state ? t_object_teardown(state) : 0;
}

#endif
