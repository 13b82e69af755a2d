/*
 * Decides which waiting ranks may go on. The ranks of a group go on once all
 * wait in the same collective; the stages that share a tensor, once all have
 * reached it; and a rank that receives a value, once that has been sent.
 */
#include "passes/sim/sim_parts.h"

#include <string.h>

static const struct ir_node *
node_of(const struct sim_rank *k)
{
	return ir_node(k->s->m, ir_machine_post(k->e)->node);
}

/* ---- groups ---- */

/* Whether the rank waits in the same state and along the same axes. */
static bool
is_there(const struct sim_rank *k, const struct ir_post *p)
{
	const struct ir_post *q = ir_machine_post(k->e);

	return k->doing == SIM_WAITS && k->state == p->state &&
	       q->axes == p->axes;
}

/*
 * Whether two ranks are in the same collective. Those of one pipeline rank run
 * one program, so at the same node; others at nodes with the same op and types.
 */
static bool
agree(const struct sim_rank *a, const struct sim_rank *b)
{
	const struct ir_post *p = ir_machine_post(a->e);
	const struct ir_post *q = ir_machine_post(b->e);
	const struct ir_node *n = node_of(a), *o = node_of(b);
	const struct ir_module *m = a->s->m;
	uint32_t i;

	if (a->pipe == b->pipe) {
		return p->node == q->node && p->step == q->step;
	}
	if (n->op != o->op || p->step != q->step ||
	    !ir_type_equal(ir_type(m, n->result), ir_type(m, o->result))) {
		return false;
	}
	for (i = 0; i < n->nargs; i++) {
		if (!ir_type_equal(ir_type(m, ir_args(m, n)[i]),
				   ir_type(m, ir_args(m, o)[i]))) {
			return false;
		}
	}
	return true;
}

/* Gives each member the data of all members. */
static bool
give_all(struct sim *s, uint32_t n)
{
	struct ir_peer *peers = s->peers;
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct sim_rank *k = &s->ranks[s->members[i]];
		const struct ir_post *p = ir_machine_post(k->e);

		memcpy(peers[i].at, k->id.at, sizeof peers[i].at);
		peers[i].data = p->data;
		peers[i].elems = p->elems;
	}
	for (i = 0; i < n; i++) {
		struct sim_rank *k = &s->ranks[s->members[i]];

		if (!ir_machine_give(k->e, peers, n, i)) {
			return false;
		}
		k->doing = SIM_READY;
	}
	return true;
}

static bool
match_group(struct sim *s, struct sim_rank *k, bool *on)
{
	const struct ir_post *p = ir_machine_post(k->e);
	uint32_t n = ranks_group_size(s->r, p->axes), i;

	ranks_group(s->r, k->number, p->axes, s->members);
	for (i = 0; i < n; i++) {
		if (!is_there(&s->ranks[s->members[i]], p)) {
			return true;
		}
	}
	for (i = 0; i < n; i++) {
		const struct sim_rank *other = &s->ranks[s->members[i]];

		if (!agree(k, other)) {
			sim_mismatch(s, k, other);
			return false;
		}
	}
	*on = true;
	return give_all(s, n);
}

/* ---- shares ---- */

static bool
match_share(struct sim *s, struct sim_rank *k, bool *on)
{
	const struct ir_post *p = ir_machine_post(k->e);
	sym_t name = intern_str(&s->m->ctx->syms, p->name);
	uint32_t i, n = 0;

	for (i = 0; i < s->shares.n; i++) {
		const struct sim_share *h = &s->shares.at[i];
		struct sim_rank *other;

		if (h->name != name) {
			continue;
		}
		s->members[n] = ranks_on_pipe(s->r, k->number, h->pipe);
		other = &s->ranks[s->members[n++]];
		if (!is_there(other, p) ||
		    strcmp(ir_machine_post(other->e)->name, p->name) != 0) {
			return true;
		}
		if (!agree(k, other)) {
			sim_mismatch(s, k, other);
			return false;
		}
	}
	if (k->action) {
		diag_error(s->diags, node_of(k)->span, "`%s` is shared in %s, "
			   "which is no update", p->name, sim_where(k));
		return false;
	}
	*on = true;
	return give_all(s, n);
}

/* ---- from stage to stage ---- */

bool
sim_send(void *user, const struct ir_node *n, const char *name,
	 const double *data, int64_t elems)
{
	struct sim_rank *k = user;
	struct sim *s = k->s;
	int64_t to = ir_attr_int(s->m, n, IR_ATTR_STAGE, 0);
	struct sim_message g = { .microbatch = k->id.microbatch,
				 .elems = elems, .span = n->span };

	if (!k->action || to < 0 || to >= s->r->nstages) {
		diag_error(s->diags, n->span, "`%s` is sent to stage %lld of "
			   "%u from %s", name, (long long)to, s->r->nstages,
			   k->action ? "a stage" : "an update");
		return false;
	}
	g.name = intern_str(&s->m->ctx->syms, name);
	g.from_stage = k->action->stage;
	g.to_stage = (uint32_t)to;
	g.from = k->number;
	g.to = ranks_on_pipe(s->r, k->number, s->r->sched->rank_of[to]);
	g.type = *ir_type(s->m, ir_args(s->m, n)[0]);
	g.data = ir_pool_get(&s->pool, n->span, elems);
	if (!g.data) {
		return false;
	}
	memcpy(g.data, data, (size_t)elems * sizeof *data);
	VEC_PUSH(&s->pool.own, &s->mail, g);
	return true;
}

static struct sim_message *
find_message(struct sim *s, const struct sim_rank *k)
{
	const struct ir_post *p = ir_machine_post(k->e);
	int64_t from = ir_attr_int(s->m, node_of(k), IR_ATTR_STAGE, 0);
	sym_t name = intern_str(&s->m->ctx->syms, p->name);
	uint32_t i;

	for (i = 0; k->action && i < s->mail.n; i++) {
		struct sim_message *g = &s->mail.at[i];

		if (g->to == k->number && g->name == name &&
		    g->microbatch == k->id.microbatch &&
		    g->from_stage == from && g->to_stage == k->action->stage) {
			return g;
		}
	}
	return NULL;
}

static bool
match_message(struct sim *s, struct sim_rank *k, bool *on)
{
	const struct ir_type *t = ir_type(s->m, node_of(k)->result);
	struct sim_message *g = find_message(s, k);
	struct ir_peer peer;
	bool ok;

	if (!g) {
		return true;
	}
	if (!ir_type_equal(&g->type, t)) {
		diag_error(s->diags, node_of(k)->span, "`%s` is received as "
			   "%s by %s, and was sent as %s",
			   ir_text(s->m->ctx, g->name), ir_type_text(s->m, t),
			   sim_where(k), ir_type_text(s->m, &g->type));
		diag_note(s->diags, g->span, "it was sent here");
		return false;
	}
	memcpy(peer.at, s->ranks[g->from].id.at, sizeof peer.at);
	peer.data = g->data;
	peer.elems = g->elems;
	ok = ir_machine_give(k->e, &peer, 1, 0);
	ir_pool_put(&s->pool, g->data);
	memmove(g, g + 1, (size_t)(s->mail.at + --s->mail.n - g) *
			  sizeof *g);
	k->doing = SIM_READY;
	*on = true;
	return ok;
}

bool
sim_match(struct sim *s, struct sim_rank *k, bool *on)
{
	switch (k->state) {
	case IR_EXCHANGES:
		return match_group(s, k, on);
	case IR_SHARES:
		return match_share(s, k, on);
	default:
		return match_message(s, k, on);
	}
}
