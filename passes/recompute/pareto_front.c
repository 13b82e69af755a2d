/*
 * The Pareto front of bytes kept and time to recompute, for one block.
 *
 * What it takes to compute a dropped value again does not depend on which other
 * values are dropped.  The pass `recompute` goes back from the value to values
 * that are saved or cannot be computed, and a saved value that is dropped, too,
 * pays for itself.  So each dropped value adds a fixed set of nodes to run, and
 * a fixed set of values to keep in addition.  A choice costs the union of these
 * sets: a node that several values need counts once.
 *
 * A plan names dropped values by words, so words are chosen here.  Costs caused
 * by the same set of words form one class, paid when the first of these words
 * is chosen, and solve/pareto.c chooses the words.
 */
#include "passes/recompute/pareto_front.h"

#include <math.h>
#include <string.h>

#include "passes/kernels/kernels.h"
#include "passes/plan/plan_keys.h"
#include "passes/recompute/recompute.h"
#include "passes/solve/pareto.h"

#define MAX_NUMBER 1e15		/* largest price: sums need 63 bits */

/* A word of `recompute`, and the hint or op by which it names values. */
struct name {
	const char *text;
	sym_t hint;		/* 0: no value has it */
	bool is_op;
	enum ir_op op;
};

/* The names of a value: words that are one of these name it. */
struct called {
	sym_t hint;		/* 0: it has none */
	bool is_made;		/* by a node, whose op is: */
	enum ir_op op;
};

struct front_block {
	struct recompute_saves s;
	struct ir_module *m;
	struct arena *tmp;
	const struct front_prices *p;
	region_id block;
	VEC(value_id) saved;	/* by the block */
	VEC(value_id) can;	/* of these, those that may be dropped */
	struct called *called;	/* by index in `can` */
	uint64_t *named;	/* by index in `can`: words that name it */
	VEC(struct name) words;
	VEC(struct pareto_cost) classes;
	uint64_t *by;		/* by value: words that need it in addition */
	int64_t kept;		/* bytes, if nothing is dropped */
	bool *drops;		/* by value: input of amount_of */
	int64_t *bytes, *ps;	/* by value: 1 + its price; 0: not priced */
	uint32_t *seen;		/* by value: the last walk that met it */
	uint32_t walk;		/* number of the present walk */
	VEC(value_id) met;	/* values that the present walk met */
	bool exact;		/* no point is left out */
};

/* ---- prices ---- */

static int64_t
whole(double v)
{
	return v > 0 ? (int64_t)llround(v < MAX_NUMBER ? v : MAX_NUMBER) : 0;
}

/* How often a value is computed in one iteration of the block. */
static double
inner_trips(const struct front_block *f, value_id v)
{
	region_id r = f->s.home[v];
	double n = 1;

	for (; r && r != f->block; r = f->s.parent[r]) {
		n *= (double)ir_attr_int(f->m, ir_node(f->m,
			f->m->regions.at[r].owner), IR_ATTR_COUNT, 1);
	}
	return n;
}

static int64_t
bytes_of(const struct front_block *f, value_id v)
{
	if (!f->bytes[v]) {
		double b = f->p->bytes ? f->p->bytes(f->p->user, v)
				       : kernel_reserved_bytes(f->m, v);

		f->bytes[v] = whole(b * inner_trips(f, v)) + 1;
	}
	return f->bytes[v] - 1;
}

/* Time to compute v again; 0 for a weight, which each use reads anyway. */
static int64_t
ps_of(const struct front_block *f, value_id v)
{
	node_id maker = f->m->values.at[v].node;

	if (!f->ps[v]) {
		f->ps[v] = ir_node(f->m, maker)->nargs == 0 ? 1
			: whole(1e6 * f->p->us(f->p->user, maker) *
				inner_trips(f, v)) + 1;
	}
	return f->ps[v] - 1;
}

/* ---- what a value is computed from ---- */

static bool
is_saved(const struct front_block *f, value_id v)
{
	return f->s.saved[v] && recompute_block(&f->s, v) == f->block;
}

/*
 * Calls `see` for each value of the block that is needed to compute v and is
 * not saved.
 */
static void
walk_back(struct front_block *f, value_id v,
	  void (*see)(struct front_block *f, value_id u, uint64_t words),
	  uint64_t words)
{
	const struct ir_node *n = ir_node(f->m, f->m->values.at[v].node);
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		value_id u = ir_args(f->m, n)[i];

		if (f->seen[u] == f->walk || !f->s.back[f->s.home[u]] ||
		    f->s.saved[u]) {
			continue;
		}
		f->seen[u] = f->walk;
		see(f, u, words);
		if (recompute_can(f->m, u)) {
			walk_back(f, u, see, words);
		}
	}
}

/* ---- words ---- */

static struct name
name_of(const struct front_block *f, const char *word)
{
	struct name name = { .text = word };

	name.hint = intern_find(&f->m->ctx->syms, word);
	name.is_op = ir_find_op(word, &name.op);
	return name;
}

static void
find_called(struct front_block *f)
{
	uint32_t k;

	f->called = arena_alloc(f->tmp, f->can.n * sizeof *f->called);
	for (k = 0; k < f->can.n; k++) {
		value_id v = recompute_root(f->m, f->can.at[k]);
		const struct ir_value *x = &f->m->values.at[v];

		f->called[k].hint = x->hint;
		f->called[k].is_made = x->node != 0;
		if (x->node) {
			f->called[k].op = ir_node(f->m, x->node)->op;
		}
	}
}

/* Whether the name means x, by the rule of recompute_set.c. */
static bool
is_called(const struct called *x, struct name name)
{
	return (x->hint && x->hint == name.hint) ||
	       (x->is_made && name.is_op && x->op == name.op);
}

/* Whether this is a mode, which is no word where it stands alone. */
static bool
is_mode(const char *words)
{
	return strcmp(words, "none") == 0 || strcmp(words, "full") == 0 ||
	       strcmp(words, "attention") == 0;
}

static bool
is_word(const char *word)
{
	return !is_mode(word) && plan_is_name(word);	/* for a list */
}

/* The first word that names the same values; words.n if there is none. */
static uint32_t
same_word(const struct front_block *f, struct name word)
{
	uint32_t i, k;

	for (i = 0; i < f->words.n; i++) {
		for (k = 0; k < f->can.n &&
		     is_called(&f->called[k], word) ==
		     is_called(&f->called[k], f->words.at[i]); k++) {
			;
		}
		if (k == f->can.n) {
			break;
		}
	}
	return i;
}

static bool
names_any(const struct front_block *f, struct name word)
{
	uint32_t k;

	for (k = 0; k < f->can.n && !is_called(&f->called[k], word); k++) {
		;
	}
	return k < f->can.n;
}

static uint32_t
find_word(const struct front_block *f, const char *text)
{
	uint32_t i;

	for (i = 0; i < f->words.n; i++) {
		if (strcmp(f->words.at[i].text, text) == 0) {
			break;
		}
	}
	return i;
}

static void
add_word(struct front_block *f, const char *text)
{
	struct name word;

	if (find_word(f, text) < f->words.n || !is_word(text)) {
		return;
	}
	word = name_of(f, text);
	if (same_word(f, word) < f->words.n) {	/* it would add nothing */
		return;
	}
	if (f->words.n < PARETO_MAX_WORDS) {
		VEC_PUSH(f->tmp, &f->words, word);
	} else {
		f->exact = false;
	}
}

/* For each value, its hint first, then its op, which may name others, too. */
static void
find_words(struct front_block *f)
{
	uint32_t i, k;

	for (k = 0; k < f->can.n; k++) {
		const struct called *x = &f->called[k];

		if (x->hint) {
			add_word(f, ir_text(f->m->ctx, x->hint));
		}
		if (x->is_made && ir_ops[x->op].recompute != IR_RC_NEVER) {
			add_word(f, ir_ops[x->op].name);
		}
	}
	f->named = arena_alloc(f->tmp, f->can.n * sizeof *f->named);
	for (k = 0; k < f->can.n; k++) {
		for (i = 0; i < f->words.n; i++) {
			f->named[k] |= (uint64_t)is_called(&f->called[k],
						f->words.at[i]) << i;
		}
	}
}

/* ---- classes ---- */

static void
pay(struct front_block *f, uint64_t words, int64_t bytes, int64_t ps)
{
	struct pareto_cost c = { words, { bytes, ps } };
	uint32_t i;

	for (i = 0; i < f->classes.n; i++) {
		if (f->classes.at[i].words == words) {
			f->classes.at[i].a.bytes += bytes;
			f->classes.at[i].a.ps += ps;
			return;
		}
	}
	VEC_PUSH(f->tmp, &f->classes, c);
}

static void
see_needed(struct front_block *f, value_id u, uint64_t words)
{
	f->by[u] |= words;
}

static void
find_classes(struct front_block *f)
{
	uint32_t k;
	value_id v;

	for (k = 0; k < f->saved.n; k++) {
		f->kept += bytes_of(f, f->saved.at[k]);
	}
	for (k = 0; k < f->can.n; k++) {
		v = f->can.at[k];
		if (f->named[k]) {
			pay(f, f->named[k], -bytes_of(f, v), ps_of(f, v));
			f->walk++;
			walk_back(f, v, see_needed, f->named[k]);
		}
	}
	for (v = 1; v < f->s.nvalues; v++) {
		if (f->by[v] && recompute_can(f->m, v)) {
			pay(f, f->by[v], 0, ps_of(f, v));
		} else if (f->by[v]) {
			pay(f, f->by[v], bytes_of(f, v), 0);
		}
	}
}

/* ---- the front ---- */

struct front_block *
front_open(struct ir_module *m, node_id block, const struct front_prices *p)
{
	struct arena *tmp = &m->ctx->tmp;
	struct front_block *f = arena_alloc(tmp, sizeof *f);
	value_id v;

	f->m = m;
	f->tmp = tmp;
	f->p = p;
	f->exact = true;
	f->block = ir_node(m, block)->region;
	recompute_find(m, &f->s);
	f->seen = arena_alloc(tmp, f->s.nvalues * sizeof *f->seen);
	f->by = arena_alloc(tmp, f->s.nvalues * sizeof *f->by);
	f->drops = arena_alloc(tmp, f->s.nvalues * sizeof *f->drops);
	f->bytes = arena_alloc(tmp, f->s.nvalues * sizeof *f->bytes);
	f->ps = arena_alloc(tmp, f->s.nvalues * sizeof *f->ps);
	for (v = 1; v < f->s.nvalues; v++) {
		if (!is_saved(f, v)) {
			continue;
		}
		VEC_PUSH(tmp, &f->saved, v);
		if (recompute_can(f->m, v)) {
			VEC_PUSH(tmp, &f->can, v);
		}
	}
	find_called(f);
	find_words(f);
	find_classes(f);
	return f;
}

static bool
drops_all(const struct front_block *f, uint64_t chosen)
{
	uint32_t k;

	for (k = 0; k < f->can.n; k++) {
		if (!(f->named[k] & chosen)) {
			return false;
		}
	}
	return true;
}

static const char *
text_of(const struct front_block *f, uint64_t chosen, struct arena *a)
{
	struct buf b;
	uint32_t i;

	if (!chosen || drops_all(f, chosen)) {
		return chosen ? "full" : "none";
	}
	buf_init(&b, a);
	for (i = 0; i < f->words.n; i++) {
		if (chosen >> i & 1) {
			buf_printf(&b, "%s%s", b.n ? " " : "",
				   f->words.at[i].text);
		}
	}
	return buf_text(&b);
}

static void
see_at(struct front_block *f, value_id u, uint64_t words)
{
	(void)words;
	VEC_PUSH(f->tmp, &f->met, u);
}

/* Cost of the block if the values in f->drops are dropped. */
static struct pareto_amount
amount_of(struct front_block *f)
{
	struct pareto_amount sum = { 0, 0 };
	uint32_t i;

	f->walk++;
	f->met.n = 0;
	for (i = 0; i < f->saved.n; i++) {
		value_id v = f->saved.at[i];

		if (f->drops[v] && recompute_can(f->m, v)) {
			sum.ps += ps_of(f, v);
			walk_back(f, v, see_at, 1);
		} else {
			sum.bytes += bytes_of(f, v);
		}
	}
	for (i = 0; i < f->met.n; i++) {
		if (recompute_can(f->m, f->met.at[i])) {
			sum.ps += ps_of(f, f->met.at[i]);
		} else {
			sum.bytes += bytes_of(f, f->met.at[i]);
		}
	}
	return sum;
}

static void
drop_named(struct front_block *f, struct name word)
{
	uint32_t k;

	for (k = 0; k < f->can.n; k++) {
		f->drops[f->can.at[k]] |= is_called(&f->called[k], word);
	}
}

/* Cost of a mode, or of words that are not all in f->words. */
static struct pareto_amount
amount_by_value(struct front_block *f, const char *words)
{
	bool full = strcmp(words, "full") == 0;
	const char *word;

	memset(f->drops, full, f->s.nvalues * sizeof *f->drops);
	if (!is_mode(words)) {
		while (plan_next_word(f->tmp, &words, &word)) {
			drop_named(f, name_of(f, word));
		}
	} else if (strcmp(words, "attention") == 0) {
		recompute_attention(f->m, f->s.nvalues, f->s.saved, f->drops);
	}
	return amount_of(f);
}

/* Sets *chosen to the words, or to equal ones.  False: one has no equal. */
static bool
find_chosen(struct front_block *f, const char *words, uint64_t *chosen)
{
	const char *word;
	uint32_t i;

	*chosen = 0;
	while (plan_next_word(f->tmp, &words, &word)) {
		struct name name;

		i = find_word(f, word);
		if (i == f->words.n) {
			name = name_of(f, word);
			i = same_word(f, name);
			if (i == f->words.n && names_any(f, name)) {
				return false;
			}
		}
		*chosen |= i < f->words.n ? UINT64_C(1) << i : 0;
	}
	return true;
}

static struct pareto_amount
amount_at(struct front_block *f, const char *words)
{
	struct pareto_amount sum = { f->kept, 0 };
	uint64_t chosen;
	uint32_t i;

	if (is_mode(words) || !find_chosen(f, words, &chosen)) {
		return amount_by_value(f, words);
	}
	for (i = 0; i < f->classes.n; i++) {
		if (f->classes.at[i].words & chosen) {
			sum.bytes += f->classes.at[i].a.bytes;
			sum.ps += f->classes.at[i].a.ps;
		}
	}
	return sum;
}

/* A point of the front, with its words as text or as a set. */
struct candidate {
	struct front_point p;	/* recompute NULL: see `chosen` */
	uint64_t chosen;
};

struct candidates {
	VEC(struct candidate) at;
};

/* Adds a point in order, unless another beats it; drops those it beats. */
static void
add_point(struct front_block *f, struct candidates *all, const char *words)
{
	struct pareto_amount x = amount_at(f, words);
	struct candidate c = { .p = { words, (double)x.bytes,
				      (double)x.ps / 1e6 } };
	struct candidate *at;
	uint32_t i, n = 0;

	for (i = 0; i < all->at.n; i++) {
		if (all->at.at[i].p.bytes <= c.p.bytes &&
		    all->at.at[i].p.extra_us <= c.p.extra_us) {
			return;
		}
	}
	VEC_PUSH(f->tmp, &all->at, c);
	at = all->at.at;
	for (i = 0; i + 1 < all->at.n; i++) {
		if (at[i].p.bytes < c.p.bytes ||
		    at[i].p.extra_us < c.p.extra_us) {
			at[n++] = at[i];
		}
	}
	for (i = n; i > 0 && at[i - 1].p.bytes > c.p.bytes; i--) {
		at[i] = at[i - 1];
	}
	at[i] = c;
	all->at.n = n + 1;
}

void
front_find(struct front_block *f, uint32_t most, struct arena *a,
	   struct front *out)
{
	struct candidates all = { 0 };
	struct pareto l = {
		.costs = f->classes.at, .ncosts = f->classes.n,
		.nwords = f->words.n, .kept = amount_at(f, "none").bytes
	};
	uint32_t i, n;

	memset(out, 0, sizeof *out);
	pareto_find(&l, f->tmp);
	for (i = 0; i < l.n; i++) {
		const struct pareto_point *s = &l.at[i];
		struct candidate c = {
			{ NULL, (double)s->a.bytes, (double)s->a.ps / 1e6 },
			s->chosen
		};

		VEC_PUSH(f->tmp, &all.at, c);
	}
	/* sets that no words may name, or that were left out */
	add_point(f, &all, "none");
	add_point(f, &all, "full");
	add_point(f, &all, "attention");
	n = most && all.at.n > most ? most : all.at.n;
	for (i = 0; i < n; i++) {
		const struct candidate *c = &all.at.at[n == all.at.n ? i
			: i * (all.at.n - 1) / (n > 1 ? n - 1 : 1)];
		struct front_point p = c->p;

		p.recompute = p.recompute ? p.recompute
			: text_of(f, c->chosen, a);
		VEC_PUSH(a, &out->at, p);
	}
	out->all = all.at.n;
	out->exact = f->exact && l.exact;
}

void
front_at(struct front_block *f, const char *words, struct front_point *out)
{
	struct pareto_amount x = amount_at(f, words);

	out->recompute = words;
	out->bytes = (double)x.bytes;
	out->extra_us = (double)x.ps / 1e6;
}

uint32_t
front_blocks(struct ir_module *m, struct arena *a, node_id **out)
{
	struct recompute_saves s;
	const struct ir_region *r;
	uint32_t i, n = 0;
	value_id v;

	recompute_find(m, &s);
	r = &m->regions.at[s.body];
	*out = arena_alloc(a, (r->nodes.n + 1) * sizeof **out);
	for (i = 0; i < r->nodes.n; i++) {
		region_id block = ir_node(m, r->nodes.at[i])->region;

		for (v = 1; block && v < s.nvalues; v++) {
			if (s.saved[v] && recompute_block(&s, v) == block) {
				(*out)[n++] = r->nodes.at[i];
				break;
			}
		}
	}
	return n;
}
