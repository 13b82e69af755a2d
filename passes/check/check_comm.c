/*
 * Transfers between stages: each `send` needs its `recv`, in a function that
 * runs when the value is available.
 *
 * If this holds and the schedule is sound, no rank of the pipeline waits
 * forever. A sound schedule has an order of all actions in which each finds
 * what it needs. Forward values come from the forward of an earlier stage and
 * gradients from the backward of a later one; both come earlier in that order.
 * So each `recv` comes after its `send`, which never waits. Ranks that wait
 * only for their `recv`s get as far as in that order.
 */
#include "passes/check/check.h"

#include <stdlib.h>

/* One end of a transfer. */
struct end {
	sym_t name;
	uint32_t from, to;	/* stages */
	bool send;
	uint32_t use;
};

static int
by_transfer(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->name != y->name) {
		return x->name < y->name ? -1 : 1;
	}
	if (x->from != y->from) {
		return x->from < y->from ? -1 : 1;
	}
	if (x->to != y->to) {
		return x->to < y->to ? -1 : 1;
	}
	if (x->send != y->send) {
		return x->send ? -1 : 1;
	}
	return (x->use > y->use) - (x->use < y->use);
}

static bool
same_transfer(const struct end *x, const struct end *y)
{
	return x->name == y->name && x->from == y->from && x->to == y->to;
}

/*
 * Forward values must go to a later stage and gradients to an earlier one, once
 * per microbatch. A stage would wait forever for a value that goes the other
 * way, or to itself.
 */
static bool
goes_right(struct check *c, const struct check_use *u, const struct end *e)
{
	const struct check_fn *f = check_fn_of(c, u);
	const char *what = e->send ? "sent" : "received";

	if (f->phase == CHECK_UPDATE || f->phase == CHECK_WEIGHTS) {
		check_fail(c, u, "it is %s in a function that no other stage "
			   "waits for, expected forward or backward", what);
	} else if (e->from >= c->nstages || e->to >= c->nstages) {
		check_fail(c, u, "found stage %u, expected 0 to %u",
			   e->from >= c->nstages ? e->from : e->to,
			   c->nstages - 1);
	} else if (e->from == e->to) {
		check_fail(c, u, "the stage hands it to itself, expected "
			   "another");
	} else if ((e->from < e->to) != (f->phase == CHECK_FORWARD)) {
		check_fail(c, u, "found it going from stage %u to %u, "
			   "expected %s", e->from, e->to,
			   f->phase == CHECK_FORWARD
			   ? "forward values to go to a later stage"
			   : "gradients to go to an earlier stage");
	} else if (u->times != 1 || u->hi - u->lo != 1) {
		check_fail(c, u, "it is %s in a repeat, expected once for "
			   "each microbatch", what);
	} else {
		return true;
	}
	return false;
}

/*
 * A value without a `recv` fills memory, a `recv` without a `send` waits
 * forever, and two values of one name are indistinguishable.
 */
static void
in_pairs(struct check *c, const struct end *e, uint32_t n)
{
	const struct check_use *s = &c->uses.at[e[0].use], *r;

	if (n == 1) {
		check_fail(c, s, e[0].send
			   ? "stage %u never receives it from stage %u, "
			     "expected a recv"
			   : "stage %u waits for it and stage %u never sends "
			     "it, expected a send",
			   e[0].to, e[0].from);
		return;
	}
	r = &c->uses.at[e[1].use];
	if (n > 2 || e[0].send == e[1].send) {
		const struct check_use *u = &c->uses.at[e[n - 1].use];
		bool send = e[n - 1].send;

		check_fail(c, u, "it is %s from stage %u to stage %u more "
			   "than once, expected once", send ? "sent"
			   : "received", e[0].from, e[0].to);
		return;
	}
	if (check_fn_of(c, s)->phase != check_fn_of(c, r)->phase) {
		check_fail(c, r, "it is sent in another kind of function, "
			   "expected the same");
		check_note(c, s, "it is sent here");
	}
	if (!ir_type_equal(check_type(c, s), check_type(c, r))) {
		check_fail(c, r, "found it as %s, expected %s, as it is sent",
			   ir_type_text(c->m, check_type(c, r)),
			   ir_type_text(c->m, check_type(c, s)));
		check_note(c, s, "it is sent here");
	}
}

void
check_comm(struct check *c)
{
	struct end *ends = arena_alloc(c->a, (c->uses.n + 1) * sizeof *ends);
	uint32_t i, n = 0, from;
	bool ok = true;

	for (i = 0; i < c->uses.n; i++) {
		const struct check_use *u = &c->uses.at[i];
		const struct ir_node *node = check_node(c, u);
		uint32_t here = check_fn_of(c, u)->stage, peer;

		if (!ir_is(node->op, IRF_PEER) ||
		    !ir_is(node->op, IRF_SOURCE | IRF_SINK)) {
			continue;
		}
		peer = (uint32_t)ir_attr_int(c->m, node, IR_ATTR_STAGE, 0);
		ends[n].name = u->key;
		ends[n].send = ir_is(node->op, IRF_SINK);
		ends[n].from = ends[n].send ? here : peer;
		ends[n].to = ends[n].send ? peer : here;
		ends[n].use = i;
		ok = goes_right(c, u, &ends[n++]) && ok;
	}
	if (!ok) {
		return;
	}
	qsort(ends, n, sizeof *ends, by_transfer);
	for (i = from = 0; i < n; i++) {
		if (i + 1 == n || !same_transfer(&ends[i + 1], &ends[from])) {
			in_pairs(c, ends + from, i + 1 - from);
			from = i + 1;
		}
	}
}
