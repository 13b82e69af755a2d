/*
 * What a pass had made of its module by those behind it.  A search makes the
 * programs of the plan that it found, to weigh them: the passes behind it in
 * the list would make them once more.  They are known by where they come from:
 * who follows in the list, one by one, from the pass that had them made.  What
 * they left then, in a child of the context, is what they would leave now.
 */
#include "passes/pass.h"
#include "passes/ranks.h"

#include <string.h>

/* By one pass. */
struct pass_made {
	pass_fn *run;
	struct ir_module *m;
	uint32_t nnames;	/* known behind it */
	struct pass_stats counts;
};

struct pass_name {
	const char *text;
	uint32_t n;
};

void
pass_ahead_init(struct pass_ahead *a, struct ir_ctx *c,
		const struct target *t)
{
	memset(a, 0, sizeof *a);
	arena_init(&a->arena, &c->mem);
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

/* ---- making ---- */

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

/* As if they had been counted where `p` says. */
static void
count(struct pass_ctx *p, const struct pass_stats *s)
{
	uint32_t i;

	for (i = 0; i < s->at.n; i++) {
		pass_count(p, s->at.at[i].what, s->at.at[i].n);
	}
}

/* What was said, and files that were read, are not to be had again. */
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

	own.stats = &x.counts;
	own.target = a->target;
	ok = run(&own, m);
	a->ended |= !ok || !is_silent(p->ctx, files);
	if (!a->ended) {
		keep_names(a, &p->ctx->syms);
		x.nnames = p->ctx->syms.text.n;
		x.m = a->at.n ? ir_copy_beside(m, a->at.at[a->at.n - 1].m,
					       &a->arena)
			      : ir_copy_in(m, &a->arena);
		VEC_PUSH(&a->arena, &a->at, x);
	}
	return ok;
}

/* ---- taking ---- */

/* Whether names that both know have the same numbers. */
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

bool
pass_ahead_has(const struct pass_ahead *a, const struct pass_ctx *p,
	       pass_fn *run)
{
	const struct pass_made *x = a->next < a->at.n ? &a->at.at[a->next]
						      : NULL;

	return x && x->run == run && a->target == p->target &&
	       same_names(a, &p->ctx->syms, x->nnames);
}

void
pass_ahead_take(struct pass_ahead *a, struct pass_ctx *p, struct ir_module *m)
{
	const struct pass_made *x = &a->at.at[a->next++];
	struct ir_ctx *c = m->ctx;
	sym_t s;

	for (s = c->syms.text.n; s < x->nnames; s++) {
		const struct pass_name *n = &a->names.at[s - a->nshared];

		intern(&c->syms, n->text, n->n);
	}
	*m = *x->m;
	m->ctx = c;
	count(p, &x->counts);
	if (a->next == a->at.n && a->found) {
		ranks_found_take(c, a->found);
	}
}
