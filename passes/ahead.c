/*
 * Results of passes that ran ahead of their turn.  To compare plans, pass
 * `search` runs the passes that follow it in the list, in a child context.
 * When the manager reaches those passes, it reuses the stored modules, since
 * the same passes in the same order on the same module give the same result.
 *
 * A pass changes its module in place, so keeping the result of a pass before
 * the next one runs costs a copy.  A copy is made only if that result is
 * observed (printed, compared, checked), which the manager says; otherwise
 * the pass and the next one are reused as one unit.
 */
#include "passes/pass.h"

#include <string.h>

/* Result of one pass. */
struct pass_made {
	pass_fn *run;
	struct ir_module *m;	/* NULL: no copy was made */
	uint32_t nnames;	/* interned after it ran */
	struct pass_stats counts;
};

struct pass_name {
	const char *text;
	uint32_t n;
};

void
pass_ahead_init(struct pass_ahead *a, struct ir_ctx *c,
		const struct target *t, const struct pass_ahead *of)
{
	memset(a, 0, sizeof *a);
	arena_init(&a->arena, &c->mem);
	if (of) {
		a->follow = of->follow;
	}
	a->target = t;
	a->nshared = c->syms.text.n;
}

void
pass_ahead_release(struct pass_ahead *a)
{
	arena_release(&a->arena);
	memset(a, 0, sizeof *a);
}

void
pass_ahead_drop(struct pass_ahead *a)
{
	a->next = a->at.n;
}

void
pass_ahead_give(struct pass_ahead *to, struct pass_ahead *from,
		struct ir_ctx *c)
{
	arena_join(&c->perm, &from->arena);
	*to = *from;
	memset(from, 0, sizeof *from);
}

/* ---- running ahead ---- */

/* Whether the result of pass `at` is not observed if `then` runs next. */
static bool
is_hidden(const struct pass_ahead *a, uint32_t at, pass_fn *then)
{
	const struct pass_follow *f = a->follow.at;

	return at + 1 < a->follow.n && !f[at].seen &&
	       f[at].run == a->at.at[at].run && f[at + 1].run == then;
}

/* Copies the last pass's result before `then` changes it in place. */
static void
keep_last(struct pass_ahead *a, const struct ir_module *m, pass_fn *then)
{
	uint32_t last = a->at.n - 1;

	if (a->at.n && !a->ended && !is_hidden(a, last, then)) {
		a->at.at[last].m = ir_copy_in(m, &a->arena);
	}
}

static void
keep_names(struct pass_ahead *a, const struct intern *t)
{
	sym_t s;

	for (s = a->nshared + a->names.n; s < t->text.n; s++) {
		struct pass_name x = { .n = t->len.at[s] };

		x.text = arena_strndup(&a->arena, t->text.at[s], x.n);
		VEC_PUSH(&a->arena, &a->names, x);
	}
}

/* Adds stored counts to the statistics of `p`. */
static void
count(struct pass_ctx *p, const struct pass_stats *s)
{
	uint32_t i;

	for (i = 0; i < s->at.n; i++) {
		pass_count(p, s->at.at[i].what, s->at.at[i].n);
	}
}

/* Reuse would not repeat diagnostics or file reads: there must be none. */
static bool
is_silent(const struct ir_ctx *c, uint32_t files)
{
	return c->diags.records.n == 0 && c->diags.errors == 0 &&
	       c->diags.warnings == 0 && c->diags.dropped == 0 &&
	       c->sources.files.n == files;
}

bool
pass_ahead_make(struct pass_ahead *a, struct pass_ctx *p, struct ir_module *m,
		pass_fn *run)
{
	uint32_t files = p->ctx->sources.files.n;
	struct pass_made x = {
		.run = run, .counts = { .arena = &a->arena, .pass = "" }
	};
	struct pass_ctx own = *p;
	bool ok;

	keep_last(a, m, run);
	own.stats = &x.counts;
	own.target = a->target;
	ok = run(&own, m);
	a->ended |= !ok || !is_silent(p->ctx, files);
	if (!a->ended) {
		keep_names(a, &p->ctx->syms);
		x.nnames = p->ctx->syms.text.n;
		VEC_PUSH(&a->arena, &a->at, x);
	}
	return ok;
}

void
pass_ahead_end(struct pass_ahead *a, struct ir_module *m)
{
	if (a->at.n && !a->ended) {
		a->at.at[a->at.n - 1].m = m;
		arena_join(&a->arena, &m->ctx->perm);
	}
}

/* ---- reusing ---- */

/* Whether names interned in both tables have the same numbers. */
static bool
same_names(const struct pass_ahead *a, const struct intern *t, uint32_t n)
{
	sym_t s;

	for (s = a->nshared; s < n && s < t->text.n; s++) {
		const struct pass_name *x = &a->names.at[s - a->nshared];

		if (x->n != t->len.at[s] ||
		    memcmp(x->text, t->text.at[s], x->n) != 0) {
			return false;
		}
	}
	return true;
}

/* The last pass of the next unit to reuse; `at.n` if there is no unit. */
static uint32_t
end_of(const struct pass_ahead *a)
{
	uint32_t i = a->next;

	while (i + 1 < a->at.n && !a->at.at[i].m &&
	       is_hidden(a, i, a->at.at[i + 1].run)) {
		i++;
	}
	return a->at.at[i].m ? i : a->at.n;
}

bool
pass_ahead_has(const struct pass_ahead *a, const struct pass_ctx *p,
	       pass_fn *run)
{
	uint32_t end;

	if (a->next >= a->at.n || a->at.at[a->next].run != run ||
	    a->target != p->target) {
		return false;
	}
	if (a->next < a->taken) {
		return true;
	}
	end = end_of(a);
	return end < a->at.n &&
	       same_names(a, &p->ctx->syms, a->at.at[end].nnames);
}

static void
take(struct pass_ahead *a, const struct pass_made *x, struct ir_module *m)
{
	struct ir_ctx *c = m->ctx;
	sym_t s;

	for (s = c->syms.text.n; s < x->nnames; s++) {
		const struct pass_name *n = &a->names.at[s - a->nshared];

		intern(&c->syms, n->text, n->n);
	}
	*m = *x->m;
	m->ctx = c;
}

void
pass_ahead_take(struct pass_ahead *a, struct pass_ctx *p, struct ir_module *m)
{
	if (a->next >= a->taken) {
		a->taken = end_of(a) + 1;
		take(a, &a->at.at[a->taken - 1], m);
	}
	count(p, &a->at.at[a->next++].counts);
}
