/*
 * Kernel groups that are loops around scalar expressions, on a GPU: from a
 * nest's steps to functions, or into a function of somebody else.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

#define PARTS 256	/* of sums over rows: two blocks for each unit */

/* ---- what a nest asks of the kernel ---- */

struct nest *
cu_nest_build(struct cu_kernel *k, const struct cu_nest *x,
	      const struct nest_ask *like)
{
	struct arena *a = k->c->a;
	struct nest *n = arena_alloc(a, sizeof *n);
	const struct cg_site site = cu_site(k);
	struct nest_ask ask = *like;
	struct nest_leaf *leaves = arena_alloc(a, sizeof *leaves *
					       (x->leaves.n + 1));
	uint32_t i, d;

	for (i = 0; i < x->leaves.n; i++) {
		leaves[i].value = x->leaves.at[i].value;
		for (d = 0; d < IR_MAX_DIMS; d++) {
			leaves[i].stride[d] = x->leaves.at[i].stride[d];
			leaves[i].moved[d] = x->leaves.at[i].from[d] != NULL;
		}
	}
	nest_ask_site(&ask, &site);
	ask.k = x->k;
	ask.nodes = x->nodes.at;
	ask.nnodes = x->nodes.n;
	ask.parts = PARTS;
	ask.leaves = leaves;
	ask.nleaves = x->leaves.n;
	for (i = 0; ask.box && i < ask.box->ndims; i++) {
		ask.moves[i] = x->from[i] != NULL;
	}
	return nest_build(n, &ask, &k->why) ? n : NULL;
}

/* ---- variables, if they are used ---- */

void
cu_late_open(struct cu_func *f, struct cu_late *l)
{
	l->before = f->text;
	l->depth = f->depth;
	l->n = 0;
	buf_init(&f->text, f->k->c->a);
}

void
cu_late_add(struct cu_late *l, const char *name, const char *line)
{
	if (l->n == sizeof l->name / sizeof *l->name) {
		die("more than %u variables", l->n);
	}
	l->name[l->n] = name;
	l->line[l->n++] = line;
}

static bool
is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
has_name(const char *text, const char *name)
{
	size_t n = strlen(name);
	const char *p;

	for (p = strstr(text, name); p; p = strstr(p + n, name)) {
		if ((p == text || !is_word(p[-1])) && !is_word(p[n])) {
			return true;
		}
	}
	return false;
}

/* A later one may need an earlier one. */
void
cu_late_close(struct cu_func *f, struct cu_late *l)
{
	struct buf inner = f->text;
	const char *text = buf_text(&inner);
	uint32_t depth = f->depth, i, k;

	f->text = l->before;
	f->depth = l->depth;
	for (i = l->n; i-- > 0; ) {
		bool used = has_name(text, l->name[i]);

		for (k = i + 1; k < l->n; k++) {
			used |= l->line[k] && has_name(l->line[k],
						       l->name[i]);
		}
		l->line[i] = used ? l->line[i] : NULL;
	}
	for (i = 0; i < l->n; i++) {
		if (l->line[i]) {
			cu_line(f, "%s", l->line[i]);
		}
	}
	buf_puts(&f->text, text);
	f->depth = depth;
}

/* ---- memory ---- */

/* Frequencies, ahead of the functions that read them. */
static void
put_tables(struct cu_emit *e)
{
	struct buf *b = &e->f->k->text;
	uint32_t i;
	int64_t j;

	e->table = arena_alloc(e->a, sizeof *e->table * (e->n->tables.n + 1));
	for (i = 0; i < e->n->tables.n; i++) {
		const struct nest_table *t = &e->n->tables.at[i];

		e->table[i] = cu_func_name(e->f->k, "table");
		buf_printf(b, "\nCONSTANT f64 %s[%lld] = {", e->table[i],
			   (long long)(t->n > 0 ? t->n : 1));
		for (j = 0; j < t->n; j++) {
			buf_printf(b, j % 3 ? " %.17g," : "\n\t%.17g,",
				   t->at[j]);
		}
		buf_puts(b, t->n > 0 ? "\n};\n" : " 0 };\n");
	}
}

void
cu_nest_open(struct cu_emit *e, const struct nest_step *s)
{
	static const struct nest_step none;
	uint32_t n = e->n->exprs.n;

	e->a = e->f->k->c->a;
	e->s = s ? s : &none;
	e->lanes = 1;
	e->val = arena_alloc(e->a, sizeof *e->val * n);
	e->kept = arena_alloc(e->a, sizeof *e->kept * n);
	e->in_kept = arena_alloc(e->a, sizeof *e->in_kept * n);
	e->range = arena_alloc(e->a, sizeof *e->range * n);
	e->seen = arena_alloc(e->a, sizeof *e->seen * n);
	if (!e->table) {
		put_tables(e);
	}
}

/* ---- steps ---- */

struct writer {
	struct cu_kernel *k;
	const struct cu_nest *x;
	const char **table;	/* written once, for all steps */
};

static void
one_step(void *user, struct nest *n, const struct nest_step *s)
{
	struct writer *w = user;
	struct cu_func f = { .k = w->k };
	struct cu_emit e = { .f = &f, .n = n, .box = w->x, .whole = true,
			     .table = w->table };

	cu_nest_open(&e, s);
	w->table = e.table;
	cu_rows_step(w->k, &e);
}

bool
cu_nest_steps(struct cu_kernel *k, const struct cu_nest *x)
{
	const struct nest_ask like = { 0 };
	struct writer w = { .k = k, .x = x };
	struct nest *n;

	if (cu_is_scatter(k, x)) {
		return cu_scatter(k, x);
	}
	n = cu_nest_build(k, x, &like);
	if (!n) {
		return false;
	}
	nest_emit(n, k->out, one_step, &w);
	return true;
}

bool
cu_nest_value(struct cu_kernel *k, const struct cu_nest *x, value_id value,
	      int64_t *offset)
{
	const struct nest_ask like = { .only = value };
	struct nest *n = cu_nest_build(k, x, &like);
	struct writer w = { .k = k, .x = x };

	if (!n) {
		return false;
	}
	nest_emit(n, k->out, one_step, &w);
	*offset = nest_only_at(n);
	return true;
}

/* ---- boxes ---- */

static const char *
bound(struct cu_func *f, struct cu_late *l, const char *type,
      const char *name, uint32_t i, const char *text)
{
	const char *v;

	if (!text) {
		return NULL;
	}
	v = arena_printf(f->k->c->a, "nest_%s%u", name, i);
	cu_late_add(l, v, arena_printf(f->k->c->a, "%s %s = (%s)(%s);", type,
				       v, type, text));
	return v;
}

/* Where a leaf begins in its dim d: as a rule, where the box does. */
static const char *
bound_leaf(struct cu_func *f, struct cu_late *l, const struct cu_nest *x,
	   const char *const *was, const struct cu_leaf *leaf, uint32_t first,
	   uint32_t d)
{
	const struct ir_type *t = ir_type(f->k->c->m, leaf->value);
	uint32_t b;

	for (b = 0; leaf->from[d] && b < x->space.ndims; b++) {
		if (x->space.dims[b] == t->dims[d] && was[b] &&
		    strcmp(was[b], leaf->from[d]) == 0) {
			return x->from[b];
		}
	}
	return bound(f, l, "int", "leaf_from", first + d, leaf->from[d]);
}

/* What the caller wrote gets names that nothing here hides. */
static void
bind_texts(struct cu_func *f, struct cu_late *l, struct cu_nest *x)
{
	struct arena *a = f->k->c->a;
	struct cu_leaf *leaves = arena_alloc(a, sizeof *leaves *
					     (x->leaves.n + 1));
	const char *was[IR_MAX_DIMS];
	uint32_t i, d;

	memcpy(was, x->from, sizeof was);
	for (d = 0; d < x->space.ndims; d++) {
		const char *type = cu_int_type(0, cu_local(f->k->c,
				x->space.dims[d], x->space.cut[d]));

		x->from[d] = bound(f, l, type, "from", d, x->from[d]);
		x->live[d] = bound(f, l, type, "live", d, x->live[d]);
	}
	for (i = 0; i < x->leaves.n; i++) {
		leaves[i] = x->leaves.at[i];
		if (leaves[i].at[0] != '(' || leaves[i].at[1] != '&') {
			leaves[i].at = bound(f, l, "const f32 *", "leaf", i,
					     leaves[i].at);
		}
		for (d = 0; d < IR_MAX_DIMS; d++) {
			leaves[i].from[d] = bound_leaf(f, l, x, was,
				&leaves[i], IR_MAX_DIMS * i, d);
		}
	}
	x->leaves.at = leaves;
}

/* Steps of the box in a block of C; threads 0: one element. */
static bool
inside(struct cu_func *f, const struct cu_nest *x, int64_t threads,
       const char *thread)
{
	const struct nest_ask like = { .box = &x->space };
	struct nest *n = cu_nest_build(f->k, x, &like);
	struct cu_nest own = *x;
	const char **table = NULL;
	struct nest_steps steps;
	struct cu_late late;
	uint32_t i;

	if (!n) {
		return false;
	}
	nest_plan(n, &steps);
	cu_line(f, "{");
	cu_late_open(f, &late);
	bind_texts(f, &late, &own);
	for (i = 0; i < steps.at.n; i++) {
		struct cu_emit e = { .f = f, .n = n, .box = &own,
				     .table = table };

		cu_line(f, "{");
		cu_nest_open(&e, &steps.at.at[i]);
		table = e.table;
		if (threads) {
			cu_rows_box(&e, threads, thread);
		} else {
			cu_rows_element(&e);
		}
		cu_line(f, "}");
	}
	cu_late_close(f, &late);
	cu_line(f, "}");
	return true;
}

bool
cu_nest_box(struct cu_func *f, const struct cu_nest *n, int64_t threads,
	    const char *thread)
{
	return inside(f, n, threads, thread);
}

bool
cu_nest_element(struct cu_func *f, const struct cu_nest *n)
{
	return inside(f, n, 0, NULL);
}
