/*
 * Which nodes become one kernel.  Region by region, outer ones first: each node
 * has a class by the facts of its op, groups of nodes merge as long as no path
 * leaves a group and comes back, and values between groups go through memory.
 * It is not a pass of the table, since it changes nothing and can be called
 * after any pass.
 */
#include "ir/memo.h"
#include "passes/kernels/fuse.h"

#include <string.h>

#include "passes/plan/plan.h"

const char *
kernel_kind_name(enum kernel_kind kind)
{
	static const char *const names[KERNEL_NKINDS] = {
		"map", "rowwise", "contraction", "attention", "move",
		"optimizer", "collective", "repeat", "call"
	};

	return names[kind];
}

/* ---- uses ---- */

static void
add_link(struct fuse *f, value_id v, node_id user)
{
	struct fuse_link l = { user, f->uses[v] };

	VEC_PUSH(&f->bench, &f->links, l);
	f->uses[v] = f->links.n;
}

static void
find_uses(struct fuse *f, region_id r, bool *updates)
{
	const struct ir_region *region = &f->m->regions.at[r];
	uint32_t i, k;

	for (i = 0; i < region->nodes.n; i++) {
		node_id id = region->nodes.at[i];
		const struct ir_node *n = ir_node(f->m, id);

		*updates |= fuse_stores(n);
		for (k = 0; k < n->nargs; k++) {
			add_link(f, ir_args(f->m, n)[k], id);
		}
		if (n->region) {
			find_uses(f, n->region, updates);
		}
	}
	for (i = 0; i < region->results.n; i++) {
		f->escapes[region->results.at[i]] = true;
	}
}

/* What uses, keys and groups are found with. */
static void
open_bench(struct fuse *f)
{
	const struct ir_module *m = f->m;
	uint32_t nv = m->values.n + 1, nn = m->nodes.n + 1;
	struct arena *a = &f->bench;

	f->linked = arena_alloc(a, m->funcs.n);
	f->uses = arena_alloc(a, nv * sizeof *f->uses);
	f->links.cap = m->args.n;
	f->links.at = arena_alloc_raw(a, m->args.n * sizeof *f->links.at);
	f->escapes = arena_alloc(a, nv);
	f->place = arena_alloc_raw(a, nn * sizeof *f->place);
	f->home = arena_alloc(a, nn * sizeof *f->home);
	if (f->memo) {
		f->said = arena_alloc(a, (m->ctx->syms.text.n + 1) *
				      sizeof *f->said);
		f->in_layers = arena_alloc(a, m->ctx->syms.text.n + 1);
		f->cut_of = arena_alloc(a, m->dims.n * sizeof *f->cut_of);
		f->typed = arena_alloc(a, m->ctx->types->at.n *
				       sizeof *f->typed);
		f->keyed = 0;
		fuse_number_values(f);
	}
}

/* So that it is known who uses values of the function. */
static void
link_uses(struct fuse *f)
{
	if (!f->linked) {
		open_bench(f);
	}
	if (!f->linked[f->func]) {
		find_uses(f, f->m->funcs.at[f->func].body,
			  &f->stores[f->func]);
		f->linked[f->func] = true;
	}
}

/* ---- regions ---- */

static struct kernel_list *find_region(struct fuse *f, region_id r);

/* A kernel of each group; their order depends on no lengths. */
static void
find_groups(struct fuse *f, struct kernel_list *l)
{
	uint32_t i, n = 0;

	for (i = 0; i < f->norder; i++) {
		n += f->order[i] != FUSE_HOLE;
	}
	l->at.cap = n;
	l->at.at = arena_alloc(&f->tmp, n * sizeof *l->at.at);
	for (i = 0; i < f->norder; i++) {
		if (f->order[i] != FUSE_HOLE) {
			fuse_count(f, f->order[i], &l->at.at[l->at.n++]);
		}
	}
	for (i = 0; i < f->n; i++) {
		if (fuse_class(f, f->nodes[i]) == FUSE_FREE) {
			VEC_PUSH(&f->tmp, &l->free, f->nodes[i]);
		}
	}
	fuse_spread_coll(f, l);
	fuse_wait_comm(f, l);
}

/* Kernels but for sizes. */
static void
make_template(struct fuse *f, const struct fuse_key *key, region_id r,
	      struct fuse_known *to)
{
	struct kernel_list made = { .region = r, .count = 1,
				    .arena = &f->tmp };

	link_uses(f);
	fuse_open_region(f, r);
	fuse_grow(f);
	fuse_sink(f);
	fuse_open_counts(f);
	find_groups(f, &made);
	fuse_keep_template(f, key, &made, to);
}

static void
keep_steps(struct fuse *f, const struct kernel_list *l, uint32_t njoins)
{
	bool known = f->memo && (l->content.a || l->content.b);
	struct arena *a = known ? memo_arena(f->memo, MEMO_STEPS) : NULL;
	size_t bytes = f->steps.n * sizeof *f->steps.at;
	struct fuse_steps *x;

	if (!a) {
		return;
	}
	x = arena_alloc_raw(a, sizeof *x + bytes);
	x->njoins = njoins;
	x->n = f->steps.n;
	if (bytes) {
		memcpy(x->at, f->steps.at, bytes);
	}
	memo_keep(f->memo, MEMO_STEPS, l->content, x);
}

/*
 * Collectives are joined, and contractions get launches.  How follows from a
 * list's content, so it is found once for all that are alike.
 */
static void
join_and_launch(struct fuse *f, struct kernel_list *l)
{
	const struct fuse_steps *x = f->memo && (l->content.a || l->content.b)
		? memo_find(f->memo, MEMO_STEPS, l->content) : NULL;
	uint32_t njoins, n;

	memset(&f->steps, 0, sizeof f->steps);
	if (x) {
		fuse_join_again(f, l, x->at, x->njoins);
	} else {
		fuse_join(f, l);
	}
	njoins = x ? x->njoins : f->steps.n;
	if (njoins) {
		fuse_wait_comm(f, l);
	}
	if (x) {
		fuse_launch_again(l, x->at + njoins, x->n - njoins);
	} else {
		fuse_launch(f, l);
		keep_steps(f, l, njoins);
	}
	n = x ? x->n : f->steps.n;
	if (n > njoins) {
		fuse_wait_comm(f, l);
	}
}

static void
find_kernels(struct fuse *f, const struct fuse_key *key, struct kernel_list *l)
{
	struct fuse_known known;

	if (!key || !fuse_find_template(f, key, l->region, &known)) {
		make_template(f, key, l->region, &known);
	}
	fuse_unpack(f, &known, l);
	join_and_launch(f, l);
	parts_read(f->m, l);
}

static void
find_bodies(struct fuse *f, struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		struct kernel *k = &l->at.at[i];
		const struct ir_node *n = ir_node(f->m, k->nodes.at[0]);

		if (k->kind == KERNEL_REPEAT) {
			k->body = find_region(f, n->region);
			k->body->count = ir_attr_int(f->m, n, IR_ATTR_COUNT,
						     1);
		}
	}
}

static struct kernel_list *
find_region(struct fuse *f, region_id r)
{
	const struct fuse_key *key = f->memo && !f->keys[r].none
		? &f->keys[r] : NULL;
	struct kernel_list *l = arena_alloc(f->a, sizeof *l);

	l->region = r;
	l->count = 1;
	l->arena = f->a;
	if (key) {
		l->content = fuse_content(key);
	}
	find_kernels(f, key, l);
	find_bodies(f, l);	/* which take the same scratch */
	return l;
}

static void
add_up(const struct kernel_list *l, double times, struct kernels *ks)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->kind == KERNEL_REPEAT) {
			add_up(k->body, times * (double)k->body->count, ks);
			continue;
		}
		ks->nkernels += kernel_follows(k) ? 0 : times;
		ks->flops += times * k->work->flops;
	}
}

/* ---- functions ---- */

struct fuse *
kernels_open(struct ir_module *m, struct memo *memo, struct arena *a)
{
	struct fuse *f = arena_alloc(a, sizeof *f);

	f->m = m;
	f->scratch = a;
	f->memo = memo;
	f->joins = plan_joins(m);
	f->join_link = ir_setting_num(m, "join.link", 0);
	f->join_work = ir_setting_num(m, "join.work", 0);
	f->launches = f->joins && !ir_setting(m, "program.serves") &&
		      ir_setting_num(m, "join.tiles", 0) > 0;
	f->in_parts = plan_chunks(m) > 1;
	f->classed = arena_alloc(a, m->funcs.n);
	f->stores = arena_alloc(a, m->funcs.n);
	f->constant = arena_alloc(a, m->values.n + 1);
	f->class = arena_alloc(a, m->nodes.n + 1);
	ir_counts_open(&f->lens, a);
	if (f->memo) {
		f->keys = arena_alloc(a, m->regions.n * sizeof *f->keys);
	}
	return f;
}

static void
clear_bench(struct fuse *f)
{
	arena_release(&f->bench);
	f->linked = NULL;
	f->number = NULL;
	f->len = NULL;
	f->nlens = 0;
	memset(&f->links, 0, sizeof f->links);
	memset(&f->making, 0, sizeof f->making);
	memset(&f->values, 0, sizeof f->values);
	memset(&f->unpacked, 0, sizeof f->unpacked);
}

/* Of a region of the function, and of those inside. */
static void
look(struct fuse *f, func_id id, region_id r)
{
	bool known = f->classed[id] && (!f->memo || f->keys[r].known);

	f->func = id;
	if (!known) {
		link_uses(f);
	}
	f->updates = f->stores[id];
	if (!f->classed[id]) {
		fuse_classify(f, f->m->funcs.at[id].body);
		f->classed[id] = true;
	}
	if (f->memo && !known) {
		fuse_find_keys(f, r);
	}
	if (f->memo) {
		fuse_find_sizes(f, r);
	}
}

static struct kernels *
find(struct fuse *f, func_id id)
{
	struct kernels *ks = arena_alloc(f->a, sizeof *ks);
	region_id body = f->m->funcs.at[id].body;

	ks->func = id;
	look(f, id, body);
	ks->top = find_region(f, body);
	add_up(ks->top, 1, ks);
	return ks;
}

static void
open_call(struct fuse *f, struct arena *a)
{
	const struct ir_module *m = f->m;

	f->a = a;
	arena_init(&f->tmp, &m->ctx->mem);
	arena_init(&f->bench, &m->ctx->mem);
	if (!fuse_classes_hold(f)) {
		memset(f->classed, 0, m->funcs.n);
		f->views.n = 0;
		if (f->memo) {
			memset(f->keys, 0, m->regions.n * sizeof *f->keys);
		}
	}
}

static void
close_call(struct fuse *f)
{
	arena_release(&f->tmp);
	clear_bench(f);
}

void
kernels_some(struct fuse *f, const func_id *ids, uint32_t n, struct arena *a,
	     struct kernels **all)
{
	uint32_t i;

	open_call(f, a);
	for (i = 0; i < n; i++) {
		if (ids[i] && !all[ids[i]]) {
			all[ids[i]] = find(f, ids[i]);
		}
	}
	close_call(f);
}

struct kernel_list *
kernels_inside(struct fuse *f, func_id id, region_id r, struct arena *a)
{
	struct kernel_list *l;

	open_call(f, a);
	look(f, id, r);
	l = find_region(f, r);
	close_call(f);
	return l;
}

static struct kernels **
find_all(struct ir_module *m, const func_id *ids, uint32_t n,
	 struct memo *memo, struct arena *a)
{
	struct kernels **all = arena_alloc(a, m->funcs.n * sizeof *all);
	struct arena scratch;

	arena_init(&scratch, &m->ctx->mem);
	kernels_some(kernels_open(m, memo, &scratch), ids, n, a, all);
	arena_release(&scratch);
	return all;
}

struct kernels *
kernels_find(struct ir_module *m, func_id func, struct memo *memo,
	     struct arena *a)
{
	return find_all(m, &func, 1, memo, a)[func];
}

struct kernels **
kernels_all(struct ir_module *m, struct memo *memo, struct arena *a)
{
	func_id *ids = arena_alloc(a, m->funcs.n * sizeof *ids), i;

	for (i = 1; i < m->funcs.n; i++) {
		ids[i] = i;
	}
	return find_all(m, ids, m->funcs.n, memo, a);
}
