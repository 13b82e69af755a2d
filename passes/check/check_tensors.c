/*
 * Which ranks hold a tensor, and whether exactly these update it: its gradient
 * is accumulated, read once and summed with that of the other holders, and the
 * new value is stored once.
 */
#include "passes/check/check.h"

#include <stdlib.h>

/* What a pipeline rank does with the tensors of one name. */
struct holder {
	uint32_t pipe;
	struct check_runs held;		/* read or accumulated in its stages */
	struct check_runs read;		/* read in its update */
	struct check_runs stored, gradients, shares;
};

struct tensor {
	struct check *c;
	sym_t key;
	const bool *derived;	/* by value */
	bool weight;		/* trained, if the program trains at all */
	bool frozen;		/* a weight that is not */
	bool state;
	/* by all holders */
	struct check_runs held, read, added, stored, gradients;
	struct check_runs several; /* iterations with more than one holder */
	struct check_runs moved;	/* reads that the loss depends on */
	VEC(struct holder) holders;	/* by pipe, those that use the name */
};

/* ---- what has a gradient ---- */

/*
 * By value: whether a float that some forward returns or sends depends on it.
 */
struct derived {
	struct check *c;
	bool *by;
	bool changed;
};

static void
derive(struct derived *d, value_id v)
{
	if (!d->by[v] && ir_dtypes[ir_type(d->c->m, v)->dtype].is_float) {
		d->by[v] = true;
		d->changed = true;
	}
}

static void derive_region(struct derived *d, region_id id);

/*
 * Goes through the repeat until nothing changes, because what one iteration
 * needs the one before it must have made.
 */
static void
derive_repeat(struct derived *d, const struct ir_node *n)
{
	const struct ir_region *r = &d->c->m->regions.at[n->region];
	bool changed = d->changed;
	uint32_t k;

	do {
		d->changed = false;
		for (k = 0; k < n->nresults; k++) {
			if (d->by[n->result + k] || d->by[r->params.at[k]]) {
				derive(d, r->results.at[k]);
			}
		}
		derive_region(d, n->region);
		for (k = 0; k < n->nresults; k++) {
			if (d->by[r->params.at[k]]) {
				derive(d, ir_args(d->c->m, n)[k]);
			}
		}
		changed |= d->changed;
	} while (d->changed);
	d->changed = changed;
}

/*
 * Goes from the last node to the first. An op without a derivative passes
 * nothing on to its operands.
 */
static void
derive_region(struct derived *d, region_id id)
{
	const struct ir_module *m = d->c->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, k;

	for (i = r->nodes.n; i-- > 0;) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		bool hands_on = ir_is(n->op, IRF_PEER) ||
			(n->nresults && !n->region && d->by[n->result] &&
			 (*ir_ops[n->op].grad ||
			  ir_is(n->op, IRF_CONVERTS)));

		if (n->region) {
			derive_repeat(d, n);
		}
		for (k = 0; hands_on && k < n->nargs; k++) {
			derive(d, ir_args(m, n)[k]);
		}
	}
}

static bool *
find_derived(struct check *c)
{
	struct derived d = { .c = c };
	uint32_t s, k;

	d.by = arena_alloc(c->a, c->m->values.n);
	for (s = 0; s < c->nstages; s++) {
		region_id body = c->m->funcs.at[c->fns[s].func].body;
		const struct ir_region *r = &c->m->regions.at[body];

		for (k = 0; k < r->results.n; k++) {
			derive(&d, r->results.at[k]);
		}
		derive_region(&d, body);
	}
	return d.by;
}

/* ---- which rank uses what ---- */

/* A use, and the pipeline rank that runs it. */
struct said {
	uint32_t pipe, use;
};

static int
by_pipe(const void *a, const void *b)
{
	const struct said *x = a, *y = b;

	if (x->pipe != y->pipe) {
		return x->pipe < y->pipe ? -1 : 1;
	}
	return (x->use > y->use) - (x->use < y->use);
}

static void
add_use(struct tensor *t, struct holder *h, uint32_t use)
{
	struct check *c = t->c;
	const struct check_use *u = &c->uses.at[use];
	const struct ir_node *n = check_node(c, u);
	bool update = check_fn_of(c, u)->phase == CHECK_UPDATE;

	if (n->op == IR_STORE) {
		check_run_add(c, &h->stored, use);
		check_run_add(c, &t->stored, use);
	} else if (n->op == IR_GRADIENT) {
		check_run_add(c, &h->gradients, use);
		check_run_add(c, &t->gradients, use);
	} else if (n->op == IR_SHARE) {
		check_run_add(c, &h->shares, use);
	} else if (n->op == IR_ACCUMULATE && !update) {
		check_run_add(c, &h->held, use);
		check_run_add(c, &t->held, use);
		check_run_add(c, &t->added, use);
	} else if (ir_is(n->op, IRF_STORED) && !ir_is(n->op, IRF_UNIQUE)) {
		t->weight |= pass_is_trained(c->m, n);
		t->frozen |= ir_is(n->op, IRF_PARAM) &&
			     !pass_is_trained(c->m, n);
		if (pass_is_trained(c->m, n) && t->derived[n->result]) {
			check_run_add(c, &t->moved, use);
		}
		t->state |= !ir_is(n->op, IRF_PARAM);
		check_run_add(c, update ? &h->read : &h->held, use);
		check_run_add(c, update ? &t->read : &t->held, use);
	}
}

/* In order of iterations, and of uses where these are equal. */
static int
by_trip(const void *a, const void *b)
{
	const struct check_run *x = a, *y = b;

	if (x->lo != y->lo) {
		return x->lo < y->lo ? -1 : 1;
	}
	return (x->use > y->use) - (x->use < y->use);
}

/* Appends the runs of one rank; overlapping and adjacent ones become one. */
static void
join_into(struct check *c, const struct check_runs *from,
	  struct check_runs *to)
{
	uint32_t i, first = to->n;

	for (i = 0; i < from->n; i++) {
		struct check_run *last = to->n > first
			? &to->at[to->n - 1] : NULL;

		if (last && from->at[i].lo <= last->hi) {
			last->hi = from->at[i].hi > last->hi
				? from->at[i].hi : last->hi;
		} else {
			VEC_PUSH(c->a, to, from->at[i]);
		}
	}
}

static void
find_several(struct tensor *t)
{
	struct check_runs all = { 0 };
	struct check_run run;
	int64_t end = INT64_MIN, hi;
	uint32_t i;

	for (i = 0; i < t->holders.n; i++) {
		join_into(t->c, &t->holders.at[i].held, &all);
	}
	if (all.n > 1) {
		qsort(all.at, all.n, sizeof *all.at, by_trip);
	}
	for (i = 0; i < all.n; i++) {
		run = all.at[i];
		hi = run.hi < end ? run.hi : end;
		if (run.lo < hi) {
			struct check_run *last = t->several.n
				? &t->several.at[t->several.n - 1] : NULL;

			run.lo = last && last->hi > run.lo ? last->hi
							   : run.lo;
			run.hi = hi;
			if (run.lo < run.hi) {
				VEC_PUSH(t->c->a, &t->several, run);
			}
		}
		end = all.at[i].hi > end ? all.at[i].hi : end;
	}
}

static void
gather(struct tensor *t, struct said *said)
{
	struct check *c = t->c;
	uint32_t i, n = 0;

	for (i = c->key_begin[t->key]; i < c->key_begin[t->key + 1]; i++) {
		uint32_t k = c->by_key[i];

		said[n].use = k;
		said[n++].pipe = check_fn_of(c, &c->uses.at[k])->pipe;
	}
	qsort(said, n, sizeof *said, by_pipe);
	for (i = 0; i < n; i++) {
		if (i == 0 || said[i].pipe != said[i - 1].pipe) {
			struct holder h = { .pipe = said[i].pipe };

			VEC_PUSH(c->a, &t->holders, h);
		}
		add_use(t, &t->holders.at[t->holders.n - 1], said[i].use);
	}
	for (i = 0; i < t->holders.n; i++) {
		struct holder *h = &t->holders.at[i];

		check_run_sort(&h->held);
		check_run_sort(&h->read);
		check_run_sort(&h->stored);
		check_run_sort(&h->gradients);
		check_run_sort(&h->shares);
	}
	check_run_sort(&t->held);
	check_run_sort(&t->read);
	check_run_sort(&t->added);
	check_run_sort(&t->moved);
	check_run_sort(&t->stored);
	check_run_sort(&t->gradients);
	find_several(t);
}

/* ---- the rules ---- */

/* Reports the first iterations of `of` that `in` lacks, with `text`. */
static void
want_all(struct check *c, const struct check_runs *of,
	 const struct check_runs *in, uint32_t pipe, const char *text)
{
	const struct check_use *u;
	struct check_run gap;

	if (check_run_lacks(of, in, &gap)) {
		u = &c->uses.at[gap.use];
		check_fail(c, u, "pipe %u %s%s", pipe, text,
			   check_trips(c, u, gap.lo, gap.hi));
	}
}

/*
 * A trained weight must be stored by each rank that holds it and by no other. A
 * rank that does not store it goes on with the weight of the previous step. A
 * state that an update reads must also be stored by it.
 */
static void
stored_by_holders(struct tensor *t, const struct holder *h)
{
	struct check *c = t->c;
	struct check_runs may = { 0 };
	uint32_t i;

	if (t->weight || t->stored.n || t->added.n) {
		want_all(c, &h->held, &h->stored, h->pipe, "holds it and "
			 "stores it not, expected a store in its update");
	}
	if (t->state) {
		want_all(c, &h->read, &h->stored, h->pipe, "reads it in its "
			 "update and stores it not, expected a store");
	}
	for (i = 0; i < h->held.n; i++) {
		VEC_PUSH(c->a, &may, h->held.at[i]);
	}
	for (i = 0; t->state && i < h->read.n; i++) {
		VEC_PUSH(c->a, &may, h->read.at[i]);
	}
	check_run_sort(&may);
	want_all(c, &h->stored, &may, h->pipe, t->state
		 ? "does not read it, expected nothing stored"
		 : "holds none of it, expected nothing stored");
	if (t->weight) {
		want_all(c, &h->read, &h->held, h->pipe, "holds none of it, "
			 "expected no use");
	}
	/* of two stores the first is lost */
	check_once(c, &h->stored, "stored", " on this rank");
}

/* Nothing may train a frozen weight, or change it. */
static void
left_frozen(struct tensor *t)
{
	const struct check_runs *x = t->added.n ? &t->added : &t->stored;

	if (t->frozen && x->n > 0) {
		check_fail(t->c, &t->c->uses.at[x->at[0].use], "%s a weight "
			   "that is frozen, expected none of it",
			   t->added.n ? "this accumulates a gradient of"
			   : "this stores");
	}
}

/*
 * Each holder must read the accumulated gradient once; otherwise the gradients
 * of some microbatches, or of another stage, are lost.
 */
static void
gradient_read(struct tensor *t, const struct holder *h)
{
	struct check *c = t->c;

	if (t->weight || t->added.n) {
		want_all(c, &h->held, &h->gradients, h->pipe, "holds it, "
			 "expected a read of its gradient in the update");
	}
	want_all(c, &h->gradients, &h->held, h->pipe, "holds none of it, "
		 "expected no read of its gradient");
	/* a gradient that is read twice is shared twice */
	check_once(c, &h->gradients, "read", " on this rank");
}

/*
 * If the loss depends on a weight, some backward must accumulate its gradient
 * for each iteration, or the weight never changes. A weight that only makes
 * choices, such as the best experts, has no gradient.
 */
static void
accumulated(struct tensor *t)
{
	const struct check_use *u;
	struct check_run gap;

	if (check_run_lacks(t->added.n ? &t->held : &t->moved, &t->added,
			    &gap)) {
		u = &t->c->uses.at[gap.use];
		check_fail(t->c, u, "no backward accumulates its gradient%s, "
			   "expected one to", check_trips(t->c, u, gap.lo,
							  gap.hi));
	}
}

/*
 * Whether backward of the stage sends a value without `batch`, so not a
 * gradient of activations.
 */
static bool
sends_gradient(const struct check *c, uint32_t stage)
{
	dim_id batch = ir_dim_find(c->m, intern_str(&c->m->ctx->syms,
						    "batch"));
	const struct check_fn *f = &c->fns[CHECK_BACKWARD * c->nstages +
					   stage];
	uint32_t i;

	for (i = f->first; i < f->first + f->n; i++) {
		const struct check_use *u = &c->uses.at[i];

		if (check_node(c, u)->op == IR_SEND &&
		    (!batch || !ir_type_has(check_type(c, u), batch))) {
			return true;
		}
	}
	return false;
}

/*
 * A stage whose outputs depend on a tensor must accumulate its part of the
 * gradient, even if others accumulate theirs, or send it to one of them.
 */
static void
each_adds_its_part(struct tensor *t, uint32_t *first, uint32_t *next)
{
	struct check *c = t->c;
	uint32_t i, k;

	/*
	 * by stage, a list of its accumulations: 1 + the first, and 1 + the
	 * next
	 */
	for (i = t->added.n; i-- > 0;) {
		uint32_t use = t->added.at[i].use;
		uint32_t s = check_fn_of(c, &c->uses.at[use])->stage;

		next[use] = first[s];
		first[s] = use + 1;
	}
	for (i = 0; i < t->moved.n && t->added.n; i++) {
		const struct check_use *u = &c->uses.at[t->moved.at[i].use];
		struct check_runs one = { &t->moved.at[i], 1, 1 }, has = { 0 };
		uint32_t s = check_fn_of(c, u)->stage;
		struct check_run gap;

		for (k = first[s]; k; k = next[k - 1]) {
			check_run_add(c, &has, k - 1);
		}
		if (check_run_lacks(&one, &has, &gap) &&
		    !sends_gradient(c, s)) {
			check_fail(c, u, "backward of this stage does not "
				   "accumulate its part of the gradient%s, "
				   "expected it to", check_trips(c, u, gap.lo,
								 gap.hi));
		}
	}
	for (i = 0; i < t->added.n; i++) {
		first[check_fn_of(c, &c->uses.at[t->added.at[i].use])->stage] =
			0;
	}
}

/* The iterations of x that are also in y. */
static void
both(struct check *c, const struct check_runs *x, const struct check_runs *y,
     struct check_runs *out)
{
	uint32_t i, k;

	for (i = 0; i < x->n; i++) {
		for (k = 0; k < y->n && y->at[k].lo < x->at[i].hi; k++) {
			struct check_run r = x->at[i];

			r.lo = y->at[k].lo > r.lo ? y->at[k].lo : r.lo;
			r.hi = y->at[k].hi < r.hi ? y->at[k].hi : r.hi;
			if (r.lo < r.hi) {
				VEC_PUSH(c->a, out, r);
			}
		}
	}
}

/*
 * All ranks that hold a tensor, and only these, must add up their gradients, or
 * their copies of the tensor would drift apart.
 */
static void
shared_by_holders(struct tensor *t, const struct holder *h)
{
	struct check *c = t->c;
	struct check_runs want = { 0 };

	both(c, &h->gradients, &t->several, &want);
	want_all(c, &want, &h->shares, h->pipe, "is not the only holder, "
		 "expected a share of the gradient");
	want_all(c, &h->shares, &want, h->pipe, "holds it alone, expected no "
		 "share");
	check_once(c, &h->shares, "shared", " on this rank");
}

/*
 * A share must read the gradient of its own name, and nothing else may read it.
 */
static void
share_of_gradient(struct check *c, const struct check_use *u)
{
	const struct ir_node *n = check_node(c, u);
	const struct ir_value *v = &c->m->values.at[ir_args(c->m, n)[0]];
	const struct ir_node *g = ir_node(c->m, v->node);

	if (check_fn_of(c, u)->phase != CHECK_UPDATE) {
		check_fail(c, u, "a share in a stage, expected it in an "
			   "update: the step is not over");
	} else if (!v->node || g->op != IR_GRADIENT ||
		   ir_attr(c->m, g, IR_ATTR_NAME)->text !=
		   ir_attr(c->m, n, IR_ATTR_NAME)->text) {
		check_fail(c, u, "found another value, expected the gradient "
			   "of that name");
	} else if (c->reads[g->result] != 1) {
		check_fail(c, u, "the gradient is used beside it, expected "
			   "only the sum of all holders");
	}
}

/* A value must not be accumulated twice under one name, or it counts twice. */
static void
added_once(struct check *c, const struct check_use *u, uint32_t *last)
{
	value_id v = ir_args(c->m, check_node(c, u))[0];
	const struct check_use *before = last[v]
		? &c->uses.at[last[v] - 1] : NULL;

	if (before && before->key == u->key && before->fn == u->fn) {
		check_fail(c, u, "the same value is accumulated twice, "
			   "expected once");
		check_note(c, before, "the first time is here");
	}
	last[v] = (uint32_t)(u - c->uses.at) + 1;
}

void
check_tensors(struct check *c)
{
	struct said *said = arena_alloc(c->a, (c->uses.n + 1) * sizeof *said);
	uint32_t *last = arena_alloc(c->a, c->m->values.n * sizeof *last);
	uint32_t *first = arena_alloc(c->a, c->nstages * sizeof *first);
	uint32_t *next = arena_alloc(c->a, (c->uses.n + 1) * sizeof *next);
	const bool *derived = find_derived(c);
	uint32_t i;
	sym_t key;

	for (key = 1; key < c->keys.text.n && c->updates; key++) {
		struct tensor t = { .c = c, .key = key, .derived = derived };

		gather(&t, said);
		if (!t.weight && !t.frozen && !t.state && !t.added.n) {
			continue;
		}
		accumulated(&t);
		left_frozen(&t);
		each_adds_its_part(&t, first, next);
		for (i = 0; i < t.holders.n; i++) {
			stored_by_holders(&t, &t.holders.at[i]);
			gradient_read(&t, &t.holders.at[i]);
			shared_by_holders(&t, &t.holders.at[i]);
		}
	}
	for (i = 0; i < c->uses.n; i++) {
		const struct check_use *u = &c->uses.at[i];

		if (check_node(c, u)->op == IR_SHARE) {
			share_of_gradient(c, u);
		} else if (check_node(c, u)->op == IR_ACCUMULATE) {
			added_once(c, u, last);
		}
	}
}
