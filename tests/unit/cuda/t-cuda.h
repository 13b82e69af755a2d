/*
 * For tests of kernels for a GPU: modules are emitted as CUDA C, the text of
 * all of them is compiled once, and each kernel runs on the emulator for all
 * ranks of its mesh, on operands as the interpreter saw them.
 *
 *	tc_open(&tc, emit, "sm_80");	cu_nest_all: all as nests
 *	tc_text(&tc, ir, 1e-5);		any number of modules
 *	tc_run(&tc, 0);			compiles, runs, compares
 *	tc_close(&tc);
 *
 * TC_SEED draws when what is asynchronous comes, and who goes on first.
 */
#ifndef T_CUDA_H
#define T_CUDA_H

#include "tests/unit/shared/t-left-out.h"
#include "tests/unit/shared/t-ranks.h"

#include "codegen/cg.h"
#include "codegen/cuda/cuda.h"
#include "runtime/emulate/emulate.h"

#define TC_SOURCES 2		/* files, so that two can be compiled at once */

struct tc_module {
	struct tk t;
	double most;
	const char *text;	/* NULL: it was not given as one */
};

struct tc {
	struct mem mem;
	struct arena a;
	struct cg_cuda c;
	cu_emitter *emit;	/* NULL: as a plan's kernels are emitted */
	bool (*wants)(const struct kernel *k);	/* NULL: all but collectives */
	VEC(struct tc_module *) modules;
	struct buf source[TC_SOURCES];
	uint32_t refused, ran;
	double worst;
	int64_t live[RT_LIVE];	/* rt_call.live */
	struct rt_emu *emu;
	bool apart;		/* rows of values lie apart */
	/* a mistake is planted in maps: what lies between rows counts as part
	 * of them, or rows lie side by side */
	enum { TC_MAPS_RIGHT, TC_MAPS_WIDE, TC_MAPS_DENSE } maps;
	bool unrun;	/* kernels are only compiled: values are not needed */
	/* of grids whose blocks take one item after another; 0: as emitted */
	int64_t blocks;
	uint64_t bits;		/* a digest of all results */
	/* a mistake is planted: what the emulator said first */
	bool planted;
	char said[512];
};

/* Multiprocessors of the usual device: B200, H100 SXM, A100. */
static inline int64_t
tc_units(const struct cu_arch *arch)
{
	return arch->tcgen05 ? 148 : arch->wgmma ? 132 : 108;
}

static inline void
tc_open(struct tc *c, cu_emitter *emit, const char *arch)
{
	uint32_t i;

	memset(c, 0, sizeof *c);
	mem_init(&c->mem);
	arena_init(&c->a, &c->mem);
	c->emit = emit;
	c->c.a = &c->a;
	c->c.arch = cu_arch_find(arch);
	c->live[0] = TK_STEP;
	assert_non_null(c->c.arch);
	c->c.units = tc_units(c->c.arch);
	for (i = 0; i < TC_SOURCES; i++) {
		buf_init(&c->source[i], &c->a);
	}
}

/* ---- emitting ---- */

static inline bool
tc_emit(struct tc *c, struct tc_module *m, const struct kernel *k,
	struct cg_kernel *out)
{
	const char *why = NULL;
	struct buf b;
	bool ok;

	c->c.m = m->t.m;
	c->c.apart = m->t.apart;
	ok = c->emit ? cg_cuda_kernel_by(&c->c, k, c->emit, out, &why)
		     : cg_cuda_kernel(&c->c, k, out, &why);
	assert_true(ok || (why && *why));
	c->refused += !ok;
	if (!ok && getenv("T_CUDA_SHOW")) {
		buf_init(&b, &c->a);
		kernel_print(m->t.m, k, &b);
		printf("refused: %s %s\n", buf_text(&b), why);
	}
	return ok;
}

/* Ranks of the same sizes have the same text: it is compiled once. */
static inline void
tc_ranks(struct tc *c, struct tc_module *m, const struct kernel *k)
{
	uint32_t first = c->c.nfuncs, last = first, r, p;
	struct tk_kernel x = { .k = k };
	bool ok = true;

	for (r = 0; ok && r < m->t.nranks; r++) {
		memcpy(c->c.at, m->t.at[r], sizeof c->c.at);
		c->c.nfuncs = first;
		ok = tc_emit(c, m, k, &x.made[r]);
		for (p = 0; ok && p < r; p++) {
			if (strcmp(x.made[p].source, x.made[r].source) == 0) {
				break;
			}
		}
		if (!ok || (r > 0 && p < r)) {
			continue;
		}
		if (r > 0) {
			c->c.nfuncs = last;
			ok = tc_emit(c, m, k, &x.made[r]);
		}
		buf_puts(&c->source[m->t.kernels.n % TC_SOURCES],
			 x.made[r].source);
		last = c->c.nfuncs > last ? c->c.nfuncs : last;
	}
	c->c.nfuncs = last;
	if (ok) {
		VEC_PUSH(&m->t.c.perm, &m->t.kernels, x);
	}
}

static inline bool
tc_is_kernel(const struct kernel *k)
{
	return k->kind != KERNEL_REPEAT && k->kind != KERNEL_CALL &&
	       k->kind != KERNEL_COLLECTIVE;
}

static inline const struct kernel *
tc_whole_launch(struct tc_module *m, const struct kernel_list *list, uint32_t i)
{
	struct kernel *all = arena_alloc(&m->t.c.perm, sizeof *all);

	kernel_of_launch(list, i, &m->t.c.perm, all);
	return all;
}

static inline void
tc_list(struct tc *c, struct tc_module *m, const struct kernel_list *list)
{
	uint32_t i;

	for (i = 0; i < list->at.n; i++) {
		const struct kernel *k = &list->at.at[i];

		if (k->kind == KERNEL_REPEAT) {
			tc_list(c, m, k->body);
		}
		if (k->launch && k->launch->at == 0) {
			tc_ranks(c, m, tc_whole_launch(m, list, i));
		} else if (!k->launch && tc_is_kernel(k) &&
			   (!c->wants || c->wants(k))) {
			tc_ranks(c, m, k);
		}
	}
}

/* ---- modules ---- */

/* A module of the same text computes the same values: true if there is one
 * before, whose values these are then. */
static inline bool
tc_known(struct tc *c, struct tc_module *m)
{
	uint32_t i = c->modules.n;

	while (m->text && i-- > 0) {
		const struct tc_module *x = c->modules.at[i];

		if (x->text && strcmp(x->text, m->text) == 0) {
			memcpy(m->t.seen, x->t.seen, sizeof m->t.seen);
			memcpy(m->t.elems, x->t.elems, sizeof m->t.elems);
			return true;
		}
	}
	return false;
}

/* m->t.m is there; errors up to `most` of the largest element. */
static inline void
tc_add(struct tc *c, struct tc_module *m, double most)
{
	struct tk *t = &m->t;
	struct tk_machines x;
	bool known;
	func_id f;

	m->most = most;
	tk_name_values(t);
	tk_mesh(t);
	if (c->apart) {
		tk_set_apart(t);
	}
	t->name = arena_alloc(&t->c.perm, t->m->nodes.n * sizeof *t->name);
	known = c->unrun || tc_known(c, m);
	tk_start(t, &x);
	for (f = 1; f < t->m->funcs.n; f++) {
		if (t->m->regions.at[t->m->funcs.at[f].body].params.n > 0) {
			continue;
		}
		ir_each_name(&x.pool, f, tk_note_name, t);
		if (!known) {
			tk_interpret(t, &x, f);
		}
		tc_list(c, m, kernels_find(t->m, f, NULL, &t->c.perm)->top);
	}
	ir_pool_close(&x.pool);
	VEC_PUSH(&c->a, &c->modules, m);
}

static inline void
tc_text(struct tc *c, const char *text, double most)
{
	struct tc_module *m = arena_alloc(&c->a, sizeof *m);

	m->text = text;
	tk_open_text(&m->t, NULL, text);
	tc_add(c, m, most);
}

static inline void
tc_close(struct tc *c)
{
	uint32_t i;

	for (i = 0; i < c->modules.n; i++) {
		ir_ctx_release(&c->modules.at[i]->t.c);
	}
	arena_release(&c->a);
}

/* ---- running ---- */

/* Maps of bf16, as all are that rows lie apart in. */
static inline void
tc_plant_map(const struct tc *c, struct rt_map *map)
{
	if (c->maps == TC_MAPS_WIDE) {
		map->size[0] = map->stride[1] / 2;
	} else if (c->maps == TC_MAPS_DENSE) {
		map->stride[1] = map->size[0] * 2;
	}
}

static inline void
tc_grid(struct tc *c, const struct tk_run *x, uint32_t image,
	const struct cg_grid *g)
{
	const struct cg_kernel *k = x->k;
	uint32_t n = k->operands.n + k->spreads.n + k->nums.n, i, d;
	size_t maps = ((size_t)(n + 2) * 8 + 63) / 64 * 64;
	/* a function takes the maps of all steps, though it uses its own */
	char *args = aligned_alloc(64, 4096);
	struct rt_grid grid = { .image = image, .func = g->func,
		.threads = g->threads, .cluster = g->cluster,
		.smem_bytes = g->smem_bytes, .nmaps = g->maps.n };
	const int64_t *at = c->live;
	struct rt_error err;

	memcpy(grid.blocks, g->blocks, sizeof grid.blocks);
	if (c->blocks && g->maps.n > 0) {
		grid.blocks[0] = c->blocks;
	}
	memcpy(args, x->at, 8 * k->operands.n);
	memcpy(args + 8 * k->operands.n, x->pieces, 8 * k->spreads.n);
	memcpy(args + 8 * (k->operands.n + k->spreads.n), x->num,
	       8 * k->nums.n);
	memcpy(args + 8 * n, &x->shared, 8);
	memcpy(args + 8 * n + 8, &at, 8);
	for (i = 0; i < g->maps.n; i++) {
		const struct cg_map *m = &g->maps.at[i];
		struct rt_map map = { .operand = m->operand, .elem = m->elem,
			.offset = m->offset, .ndims = m->ndims,
			.swizzle = m->swizzle };

		for (d = 0; d < 5; d++) {
			map.size[d] = m->size[d];
			map.stride[d] = m->stride[d];
			map.box[d] = m->box[d];
		}
		tc_plant_map(c, &map);
		if (rt_emu_map(args + maps + 128 * i, &map,
			       x->at[m->operand], &err) != RT_OK) {
			fail_msg("%s: %s", g->func, err.message);
		}
	}
	if (rt_emu_launch(c->emu, &grid, args, &err) == RT_OK) {
		err.message[0] = '\0';
		if (c->live[RT_NUMBERS] != 0) {
			snprintf(err.message, sizeof err.message,
				 "its counters are not 0 after it");
		}
	}
	if (err.message[0]) {
		if (!c->planted) {
			fail_msg("%s: %s", g->func, err.message);
		} else if (!c->said[0]) {
			snprintf(c->said, sizeof c->said, "%s", err.message);
		}
		c->live[RT_NUMBERS] = 0;
	}
	free(args);
}

/* Whether any rank has a step s; all have the same if it is a collective. */
static inline bool
tc_has(const struct tk_run *x, uint32_t nranks, uint32_t s)
{
	uint32_t n = 0, colls = 0, r;

	for (r = 0; r < nranks; r++) {
		n += s < x[r].k->steps.n;
		colls += s < x[r].k->steps.n && !x[r].k->steps.at[s].grid;
	}
	assert_true(colls == 0 || colls == nranks);
	return n > 0;
}

static inline void
tc_allow(struct tc *c, struct tk *t, const struct tk_run *x)
{
	struct rt_error err;
	uint32_t i;

	rt_emu_allow_none(c->emu);
	for (i = 0; i < x->k->operands.n; i++) {
		value_id v = tk_value(t, &x->k->operands.at[i]);
		int64_t elems = tk_spot(t, 0, &x->k->operands.at[i],
					t->elems[0][v]);

		rt_emu_allow(c->emu, x->at[i],
			     tk_bytes(ir_type(t->m, v)->dtype, elems), &err);
	}
	for (i = 0; i < x->k->spreads.n; i++) {
		rt_emu_allow(c->emu, x->pieces[i], sizeof **x->pieces, &err);
	}
	rt_emu_allow(c->emu, x->shared, x->k->shared_bytes, &err);
	rt_emu_allow(c->emu, c->live, sizeof c->live, &err);
}

/* Adds what a kernel has written to the digest, whatever was added before. */
static inline void
tc_digest(struct tc *c, const struct tk *t, uint32_t r, const struct tk_run *x)
{
	uint32_t i;
	int64_t j;

	for (i = 0; i < x->k->operands.n; i++) {
		value_id v = tk_value(t, &x->k->operands.at[i]);
		const unsigned char *at = (const void *)x->at[i];
		int64_t n = !x->k->operands.at[i].written ? 0
			: t->elems[r][v] *
			  ir_dtypes[ir_type(t->m, v)->dtype].bits / 8;
		uint64_t own = v;

		for (j = 0; j < n; j++) {
			own = (own ^ at[j]) * 0x100000001b3u;
		}
		c->bits += n ? own : 0;
	}
}

/* One launch of a kernel, on all ranks. */
static inline void
tc_launch(struct tc *c, struct tc_module *m, uint32_t i)
{
	const struct tk_kernel *k = &m->t.kernels.at[i];
	struct tk_run x[TK_RANKS];
	uint32_t r, s;

	for (r = 0; r < m->t.nranks; r++) {
		tk_rooms(&m->t, k, r, &x[r]);
	}
	for (s = 0; tc_has(x, m->t.nranks, s); s++) {
		for (r = 0; r < m->t.nranks; r++) {
			if (s < x[r].k->steps.n && x[r].k->steps.at[s].grid) {
				if (m->t.nranks == 1) {
					tc_allow(c, &m->t, &x[r]);
				}
				tc_grid(c, &x[r], i % TC_SOURCES,
					x[r].k->steps.at[s].grid);
			}
		}
		if (s < x[0].k->steps.n && !x[0].k->steps.at[s].grid) {
			tk_coll(&m->t, x, s);
		}
	}
	rt_emu_allow_none(c->emu);
	for (r = 0; r < m->t.nranks && !c->said[0]; r++) {
		tc_digest(c, &m->t, r, &x[r]);
		tk_compare(&m->t, k, r, &x[r], m->most);
	}
	c->ran++;
}

/* Whether it adds to a sum that may hold nothing yet; each sink of it must be
 * one that may. */
static inline bool
tc_begins(const struct tc_module *m, const struct tk_kernel *k)
{
	uint32_t sums = 0, i, n;

	for (i = 0; i < k->k->nodes.n; i++) {
		sums += ir_node(m->t.m, k->k->nodes.at[i])->op ==
			IR_ACCUMULATE;
	}
	for (i = n = 0; i < k->made[0].nums.n; i++) {
		n += k->made[0].nums.at[i].kind == CG_OLD;
	}
	assert_int_equal(n, sums);
	return n > 0;
}

/* A kernel that adds to sums runs twice: each of them begins in one run. */
static inline void
tc_kernel(struct tc *c, struct tc_module *m, uint32_t i)
{
	bool both = tc_begins(m, &m->t.kernels.at[i]);

	for (m->t.turn = 0; m->t.turn < (both ? 2 : 1); m->t.turn++) {
		tc_launch(c, m, i);
	}
}

/*
 * All of it by NVRTC, where there is one: without a warning, without a spill.
 * How many registers a thread has at most; 0: there is no NVRTC.
 */
static inline int64_t
tc_compile(struct tc *c, const char *arch)
{
	struct cg_source source[TC_SOURCES];
	struct cg_make make = { .sources = source, .nsources = TC_SOURCES,
				.arch = arch };
	struct cg_images made;
	int64_t most = 0;
	struct ir_ctx ctx;
	uint32_t i, f;

	ir_ctx_init(&ctx, NULL);
	make.texts = cg_prelude(&c->a, &make.ntexts);
	for (i = 0; i < TC_SOURCES; i++) {
		source[i].name = arena_printf(&c->a, "kernels%u", i);
		source[i].text = buf_text(&c->source[i]);
	}
	if (!cg_images(&ctx, &make, &made) ||
	    ctx.diags.records.n > 0) {
		for (i = 1; i < ctx.diags.records.n; i++) {
			print_message("%s\n", ctx.diags.records.at[i].text);
		}
		fail_msg("%s", ctx.diags.records.n
			 ? ctx.diags.records.at[0].text : "nvrtc");
	}
	for (i = 0; made.made_by && i < TC_SOURCES; i++) {
		for (f = 0; f < made.at[i].funcs.n; f++) {
			const struct cg_func *x = &made.at[i].funcs.at[f];

			if (x->spill_bytes > 0) {
				fail_msg("%s spills %lld bytes", x->name,
					 (long long)x->spill_bytes);
			}
			most = x->registers > most ? x->registers : most;
		}
	}
	ir_ctx_release(&ctx);
	return most;
}

/* Flags as of rt_emu_open.  All is compiled, and run. */
static inline void
tc_run(struct tc *c, int flags)
{
	struct rt_image image[TC_SOURCES];
	struct rt_images images = { .n = TC_SOURCES, .at = image,
				    .ntexts = cu_nprelude };
	struct rt_error err;
	uint32_t i, k;

	memset(image, 0, sizeof image);
	for (i = 0; i < TC_SOURCES; i++) {
		image[i].name = arena_printf(&c->a, "kernels%u", i);
		image[i].source = buf_text(&c->source[i]);
	}
	if (getenv("T_CUDA_DUMP")) {
		for (i = 0; i < TC_SOURCES; i++) {
			FILE *f = fopen(arena_printf(&c->a, "%s%u-%u.cu",
						     getenv("T_CUDA_DUMP"),
						     c->modules.n, i), "w");

			assert_non_null(f);
			fputs(image[i].source, f);
			fclose(f);
		}
	}
	memcpy(&images.texts, &(const void *){ cu_prelude },
	       sizeof images.texts);
	t_quick(flags);
	if (rt_emu_open(&c->emu, &images, flags | RT_EMU_EARLY, &err) !=
	    RT_OK) {
		fail_msg("%s", err.message);
	}
	if (getenv("TC_SEED")) {
		rt_emu_seed(c->emu, strtoull(getenv("TC_SEED"), NULL, 0));
	}
	for (i = 0; i < c->modules.n; i++) {
		struct tc_module *m = c->modules.at[i];

		for (k = 0; k < m->t.kernels.n; k++) {
			tc_kernel(c, m, k);
		}
		c->worst = fmax(c->worst, m->t.worst);
	}
	rt_emu_close(c->emu);
}

#endif
