/*
 * Communication between ranks.  There is one primitive: the ranks of a group
 * give a block each and get those of all.  A machine that reaches it is
 * suspended until it has been given them, and then runs the node again from its
 * beginning, where the blocks of earlier rounds are at hand.  So an op of
 * several rounds is written as if communication took no time.
 */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

/* ---- waiting ---- */

/*
 * Returns true once the machine has the blocks of this round, and false when it
 * has to wait for them.
 */
static bool
wait_for(struct interp *e, const struct ir_node *n, enum ir_state state,
	 const double *data, int64_t elems, const struct interp_round **round)
{
	struct ir_post *p = &e->post;

	if (e->round < e->nrounds) {
		*round = &e->rounds.at[e->round++];
		return true;
	}
	if (e->posted) {
		ir_interp_put(e, e->posted);
	}
	e->posted = ir_interp_get(e, n, elems);
	if (!e->posted) {
		return false;
	}
	if (elems > 0) {
		memcpy(e->posted->data, data, (size_t)elems * sizeof *data);
	}
	p->state = state;
	p->node = (node_id)(n - e->m->nodes.at);
	p->step = e->round;
	p->data = e->posted->data;
	p->elems = elems;
	e->waits = true;
	return false;
}

const struct ir_post *
ir_machine_post(const struct interp *e)
{
	return &e->post;
}

bool
ir_machine_give(struct interp *e, const struct ir_peer *peers, uint32_t n,
		uint32_t me)
{
	struct interp_round *r;
	int64_t elems = 0;
	double *to;
	uint32_t i;

	while (e->rounds.n <= e->nrounds) {
		VEC_PUSH(&e->pool->own, &e->rounds,
			 (struct interp_round){ 0 });
	}
	r = &e->rounds.at[e->nrounds];
	for (i = 0; i < n; i++) {
		elems += peers[i].elems;
	}
	r->block = ir_interp_get(e, ir_node(e->m, e->post.node), elems);
	if (!r->block) {
		return false;
	}
	e->nrounds++;
	r->me = me;
	r->peers.n = 0;
	to = r->block->data;
	for (i = 0; i < n; i++) {
		struct ir_peer peer = peers[i];

		memcpy(to, peer.data, (size_t)peer.elems * sizeof *to);
		peer.data = to;
		to += peer.elems;
		VEC_PUSH(&e->pool->own, &r->peers, peer);
	}
	return true;
}

/* ---- exchanges ---- */

bool
ir_interp_colls(const struct interp *e, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(e->m, n, IR_ATTR_ON);

	return e->at && on && on->ndims > 0;
}

static uint32_t
on_axes(const struct interp *e, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(e->m, n, IR_ATTR_ON);
	uint32_t i, axes = 0;

	for (i = 0; i < on->ndims; i++) {
		axes |= 1u << on->dims[i];
	}
	return axes;
}

bool
ir_interp_exchange(struct interp *e, const struct ir_node *n,
		   const double *data, int64_t elems,
		   const struct interp_round **round)
{
	e->post.axes = on_axes(e, n);
	e->post.name = NULL;
	return wait_for(e, n, IR_EXCHANGES, data, elems, round);
}

bool
ir_interp_reduce(struct interp *e, const struct ir_node *n,
		 enum interp_how how, double *data, int64_t elems)
{
	const struct interp_round *r;
	uint32_t k;
	int64_t i;

	if (!ir_interp_colls(e, n)) {
		return true;
	}
	if (!ir_interp_exchange(e, n, data, elems, &r)) {
		return false;
	}
	memcpy(data, r->peers.at[0].data, (size_t)elems * sizeof *data);
	for (k = 1; k < r->peers.n; k++) {
		const double *x = r->peers.at[k].data;

		for (i = 0; i < elems; i++) {
			data[i] = how == INTERP_SUM ? data[i] + x[i]
				: x[i] > data[i] ? x[i] : data[i];
		}
	}
	return true;
}

/* ---- from one placement to another ---- */

static bool
same(struct interp *e, const struct ir_node *n, double *out)
{
	memcpy(out, interp_arg(e, n, 0),
	       (size_t)ir_interp_elems(e, n, 0) * sizeof *out);
	return true;
}

/* Copies a rank's elements to where they belong among ours. */
static void
collect(const struct interp *e, const struct ir_node *n,
	const struct ir_local *to, const struct ir_peer *p, bool add,
	double *out)
{
	struct ir_local from;
	int64_t i, j;

	ir_local(e->m, interp_type(e, n, 0), p->at, &from);
	for (i = 0; i < from.elems; i++) {
		j = ir_local_find(to, ir_local_at(&from, i));
		if (j >= 0 && (add || !isnan(p->data[i]))) {
			out[j] = add ? out[j] + p->data[i] : p->data[i];
		}
	}
}

static void
collect_all(const struct interp *e, const struct ir_node *n,
	    const struct interp_round *r, double *out)
{
	bool add = ir_ops[n->op].split[0] == '+';
	struct ir_local to;
	uint32_t k;
	int64_t i;

	ir_local(e->m, ir_type(e->m, n->result), e->at, &to);
	for (i = 0; i < to.elems; i++) {
		out[i] = add ? 0 : NAN;
	}
	for (k = 0; k < r->peers.n; k++) {
		collect(e, n, &to, &r->peers.at[k], add, out);
	}
}

static bool
convert(struct interp *e, const struct ir_node *n, double *out)
{
	const struct interp_round *r;

	if (!ir_interp_colls(e, n)) {
		return same(e, n, out);
	}
	if (!ir_interp_exchange(e, n, interp_arg(e, n, 0),
				ir_interp_elems(e, n, 0), &r)) {
		return false;
	}
	collect_all(e, n, r, out);
	return true;
}

bool
ir_eval_all_reduce(struct interp *e, const struct ir_node *n, double *out)
{
	return convert(e, n, out);
}

bool
ir_eval_reduce_scatter(struct interp *e, const struct ir_node *n, double *out)
{
	return convert(e, n, out);
}

bool
ir_eval_all_gather(struct interp *e, const struct ir_node *n, double *out)
{
	return convert(e, n, out);
}

bool
ir_eval_all_to_all(struct interp *e, const struct ir_node *n, double *out)
{
	return convert(e, n, out);
}

bool
ir_eval_shard(struct interp *e, const struct ir_node *n, double *out)
{
	struct ir_peer self = { .data = interp_arg(e, n, 0) };
	struct ir_local to;

	if (!e->at) {
		return same(e, n, out);
	}
	memcpy(self.at, e->at, sizeof self.at);
	ir_local(e->m, ir_type(e->m, n->result), e->at, &to);
	collect(e, n, &to, &self, false, out);
	return true;
}

bool
ir_eval_once(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_attr *on = ir_attr(e->m, n, IR_ATTR_ON);
	uint32_t i;

	same(e, n, out);
	for (i = 0; e->at && i < on->ndims; i++) {
		if (e->at[on->dims[i]] > 0) {
			memset(out, 0, (size_t)ir_interp_elems(e, n, 0) *
				       sizeof *out);
		}
	}
	return true;
}

/* ---- rows and their experts ---- */

bool
ir_interp_absent(const struct interp *e, const struct ir_node *n)
{
	diag_error(&e->m->ctx->diags, n->span, "%s reads a row that is not on "
		   "this rank, or is not a number", ir_ops[n->op].name);
	return false;
}

/* The experts of a rank: a dim that only the `on` axes split. */
static void
own_experts(const struct interp *e, const struct ir_node *n,
	    const uint32_t *at, struct ir_pieces *out)
{
	const struct ir_attr *on = ir_attr(e->m, n, IR_ATTR_ON);
	dim_id of = interp_type(e, n, 1)->of;
	uint32_t i, cut = 0;

	for (i = 0; i < on->ndims; i++) {
		cut |= on->dims[i] << 4 * i;
	}
	ir_pieces(e->m, ir_dim_size(e->m, of), cut, at, out);
}

/*
 * Loops over the rows of all the group, which the index has all of, and the
 * other dims of the index and of x inside.  So of x and the result, only the
 * routed one is where the loops stand.
 */
struct routes {
	struct ir_rule r;
	struct interp_nest b, i, a;
};

static void
bind_routes(struct interp *e, const struct ir_node *n, struct routes *s)
{
	ir_bind(e->m, n, &s->r);
	ir_nest(e, n, &s->r, &s->b, "B");
	ir_nest(e, n, &s->r, &s->i, "I");
	ir_nest(e, n, &s->r, &s->a, "A");
}

/* Whether the rank of these experts gets the row at s->b. */
static bool
is_wanted(const struct interp *e, const struct ir_node *n, struct routes *s,
	  const struct ir_pieces *experts)
{
	const double *index = interp_arg(e, n, 1) + s->b.in_off[1];
	bool i;

	for (i = ir_nest_start(&s->i); i; i = ir_nest_next(&s->i)) {
		if (ir_pieces_find(experts,
				   (int64_t)index[s->i.in_off[1]]) >= 0) {
			return true;
		}
	}
	return false;
}

bool
ir_eval_dispatch(struct interp *e, const struct ir_node *n, double *out)
{
	const struct interp_round *r;
	struct ir_pieces experts;
	struct routes s;
	bool i, j;

	if (!ir_interp_colls(e, n)) {
		return same(e, n, out);
	}
	if (!ir_interp_exchange(e, n, interp_arg(e, n, 0),
				ir_interp_elems(e, n, 0), &r)) {
		return false;
	}
	collect_all(e, n, r, out);
	own_experts(e, n, e->at, &experts);
	bind_routes(e, n, &s);
	for (i = ir_nest_start(&s.b); i; i = ir_nest_next(&s.b)) {
		if (is_wanted(e, n, &s, &experts)) {
			continue;
		}
		for (j = ir_nest_start(&s.a); j; j = ir_nest_next(&s.a)) {
			out[s.b.out_off + s.a.out_off] = NAN;
		}
	}
	return true;
}

/* The rows of this rank's experts, which it sends back; NaN in all others. */
static bool
own_rows(struct interp *e, const struct ir_node *n, double *rows)
{
	const double *x = interp_arg(e, n, 0);
	struct ir_pieces experts;
	struct routes s;
	bool i, j;

	own_experts(e, n, e->at, &experts);
	bind_routes(e, n, &s);
	if (s.i.n > 0) {
		diag_error(&e->m->ctx->diags, n->span, "combine takes a row "
			   "from the rank of its expert, and %s has several "
			   "experts per row", ir_type_text(e->m,
			   interp_type(e, n, 0)));
		return false;
	}
	for (i = ir_nest_start(&s.b); i; i = ir_nest_next(&s.b)) {
		bool mine = is_wanted(e, n, &s, &experts);

		for (j = ir_nest_start(&s.a); j; j = ir_nest_next(&s.a)) {
			int64_t k = s.b.in_off[0] + s.a.in_off[0];

			if (mine && isnan(x[k])) {
				return ir_interp_absent(e, n);
			}
			rows[k] = mine ? x[k] : NAN;
		}
	}
	return true;
}

bool
ir_eval_combine(struct interp *e, const struct ir_node *n, double *out)
{
	const struct interp_round *r;
	struct interp_block *rows;
	int64_t elems, i;

	if (!ir_interp_colls(e, n)) {
		return same(e, n, out);
	}
	elems = ir_interp_elems(e, n, 0);
	rows = ir_interp_get(e, n, elems);
	if (!rows || !own_rows(e, n, rows->data) ||
	    !ir_interp_exchange(e, n, rows->data, elems, &r)) {
		return false;
	}
	collect_all(e, n, r, out);
	ir_interp_put(e, rows);
	elems = ir_interp_elems(e, n, INTERP_RESULT);
	for (i = 0; i < elems; i++) {
		if (isnan(out[i])) {
			return ir_interp_absent(e, n);
		}
	}
	return true;
}

/* ---- other stages ---- */

static bool
no_stage(const struct interp *e, const struct ir_node *n)
{
	diag_error(&e->m->ctx->diags, n->span, "%s needs another stage, and "
		   "this runs alone", ir_ops[n->op].name);
	return false;
}

bool
ir_eval_send(struct interp *e, const struct ir_node *n, double *out)
{
	(void)out;
	if (!e->rank || !e->rank->send) {
		return no_stage(e, n);
	}
	return e->rank->send(e->rank->user, n, ir_interp_name(e, n),
			     interp_arg(e, n, 0), ir_interp_elems(e, n, 0));
}

bool
ir_eval_recv(struct interp *e, const struct ir_node *n, double *out)
{
	const struct interp_round *r;

	if (!e->rank) {
		return no_stage(e, n);
	}
	e->post.axes = 0;
	e->post.name = ir_interp_name(e, n);
	if (!wait_for(e, n, IR_RECEIVES, NULL, 0, &r)) {
		return false;
	}
	memcpy(out, r->peers.at[0].data,
	       (size_t)r->peers.at[0].elems * sizeof *out);
	return true;
}

/* Stages that share a tensor have it in the same placement. */
bool
ir_eval_share(struct interp *e, const struct ir_node *n, double *out)
{
	int64_t elems = ir_interp_elems(e, n, 0), i;
	const struct interp_round *r;
	uint32_t k;

	if (!e->rank) {
		return same(e, n, out);
	}
	e->post.axes = 0;
	e->post.name = ir_interp_name(e, n);
	if (!wait_for(e, n, IR_SHARES, interp_arg(e, n, 0), elems, &r)) {
		return false;
	}
	memset(out, 0, (size_t)elems * sizeof *out);
	for (k = 0; k < r->peers.n; k++) {
		for (i = 0; i < elems; i++) {
			out[i] += r->peers.at[k].data[i];
		}
	}
	return true;
}
