/*
 * The tree of a pattern to a program of the kind that a nondeterministic
 * automaton runs (Thompson's).
 */
#include "runtime/tokenize/tok_regex_parse.h"

enum { MAX_OPS = 4000 };

static bool
add_op(struct re_parser *r, enum rt_regex_kind kind, size_t x, size_t y)
{
	struct rt_regex_program *p = r->p;
	struct rt_regex_op *more;

	if (p->n == MAX_OPS) {
		return rt_regex_refuse(r, 0,
				       "a pattern that is too long with its "
				       "repetitions written out");
	}
	if (p->n == p->cap) {
		more = rt_resize(r->alloc, p->ops, p->cap ? 2 * p->cap : 64,
				 sizeof *more);
		if (!more) {
			return rt_regex_no_memory(r);
		}
		p->ops = more;
		p->cap = p->cap ? 2 * p->cap : 64;
	}
	p->ops[p->n++] = (struct rt_regex_op){ kind, (uint32_t)x,
					       (uint32_t)y };
	return true;
}

static bool emit_node(struct re_parser *r, uint32_t i);

/* A fork whose one way is the next op; the other is set later. */
static bool
fork_op(struct re_parser *r)
{
	return add_op(r, RT_RE_SPLIT, r->p->n + 1, 0);
}

static void
join_fork(struct re_parser *r, size_t at, size_t to, bool lazy)
{
	struct rt_regex_op *op = &r->p->ops[at];

	op->y = (uint32_t)to;
	if (lazy) {
		op->y = op->x;
		op->x = (uint32_t)to;
	}
}

static bool
emit_repeat(struct re_parser *r, const struct re_node *x)
{
	size_t forks[RE_MAX_TIMES], n = 0, at;
	int i;

	for (i = 0; i < x->least; i++) {
		if (!emit_node(r, x->a)) {
			return false;
		}
	}
	if (x->most == RE_FOREVER) {
		at = r->p->n;
		if (!fork_op(r) || !emit_node(r, x->a) ||
		    !add_op(r, RT_RE_JUMP, at, 0)) {
			return false;
		}
		join_fork(r, at, r->p->n, x->lazy);
		return true;
	}
	for (; i < x->most; i++) {
		forks[n++] = r->p->n;
		if (!fork_op(r) || !emit_node(r, x->a)) {
			return false;
		}
	}
	while (n > 0) {
		join_fork(r, forks[--n], r->p->n, x->lazy);
	}
	return true;
}

static bool
emit_node(struct re_parser *r, uint32_t i)
{
	struct re_node x = r->nodes[i];
	size_t at, jump;

	switch (x.kind) {
	case EMPTY:
		return true;
	case SET:
		return add_op(r, RT_RE_SET, x.a, 0);
	case AHEAD:
		return add_op(r, RT_RE_NEXT, x.a, 0);
	case NOT_AHEAD:
		return add_op(r, RT_RE_NOT_NEXT, x.a, 0);
	case CAT:
		return emit_node(r, x.a) && emit_node(r, x.b);
	case REPEAT:
		return emit_repeat(r, &x);
	case ALT:
		break;
	}
	at = r->p->n;
	if (!fork_op(r) || !emit_node(r, x.a)) {
		return false;
	}
	jump = r->p->n;
	if (!add_op(r, RT_RE_JUMP, 0, 0)) {
		return false;
	}
	join_fork(r, at, r->p->n, false);
	if (!emit_node(r, x.b)) {
		return false;
	}
	r->p->ops[jump].x = (uint32_t)r->p->n;
	return true;
}

bool
rt_regex_emit(struct re_parser *r, uint32_t root)
{
	return emit_node(r, root) && add_op(r, RT_RE_MATCH, 0, 0);
}

void
rt_regex_program_release(struct rt_regex_program *p, const struct rt_alloc *a)
{
	size_t i;

	for (i = 0; i < p->nsets; i++) {
		rt_release(a, p->sets[i].at);
	}
	rt_release(a, p->sets);
	rt_release(a, p->ops);
	memset(p, 0, sizeof *p);
}
