/*
 * Reports why ranks cannot go on: two wait for each other in different
 * collectives, or a circle of ranks wait; and reports what a step sent or saved
 * that nothing received.
 */
#include "passes/sim/sim_parts.h"

#include <string.h>

#define MAX_LINES 8

const char *
sim_where(const struct sim_rank *k)
{
	struct arena *tmp = &k->s->m->ctx->tmp;

	return arena_printf(tmp, "%s in %s%s%s",
			    ranks_text(k->s->r, k->number),
			    k->action ? sched_name(tmp, k->action) : "",
			    k->action ? ", " : "", ir_machine_where(k->e));
}

static const char *
post_text(const struct sim *s, const struct sim_rank *k)
{
	const struct ir_post *p = ir_machine_post(k->e);
	const struct ir_node *n = ir_node(s->m, p->node);
	const char *before = " on=";
	struct buf b;
	axis_id a;

	buf_init(&b, &s->m->ctx->tmp);
	buf_puts(&b, ir_ops[n->op].name);
	for (a = 1; a < s->m->axes.n; a++) {
		if (p->axes >> a & 1) {
			buf_printf(&b, "%s%s", before, ir_axis_name(s->m, a));
			before = ",";
		}
	}
	if (k->state != IR_EXCHANGES) {
		buf_printf(&b, " `%s`", p->name);
	}
	if (p->step > 0) {
		buf_printf(&b, " (round %u)", p->step + 1);
	}
	buf_printf(&b, " of %s", ir_type_text(s->m, n->nargs
		? ir_type(s->m, ir_args(s->m, n)[0])
		: ir_type(s->m, n->result)));
	return buf_text(&b);
}

static struct span
span_of(const struct sim *s, const struct sim_rank *k)
{
	return ir_node(s->m, ir_machine_post(k->e)->node)->span;
}

void
sim_mismatch(struct sim *s, const struct sim_rank *a,
	     const struct sim_rank *b)
{
	diag_error(s->diags, span_of(s, a), "ranks of one group wait in "
		   "different collectives: %s in %s",
		   sim_where(a), post_text(s, a));
	diag_note(s->diags, span_of(s, b), "and %s in %s", sim_where(b),
		  post_text(s, b));
}

/* ---- no rank can go on ---- */

/* Lists the ranks that k waits for; returns how many. */
static uint32_t
waits_for(const struct sim *s, const struct sim_rank *k, uint32_t *members)
{
	const struct ir_post *p = ir_machine_post(k->e);
	int64_t stage;
	uint32_t i, n = 0;

	if (k->state == IR_EXCHANGES) {
		ranks_group(s->r, k->number, p->axes, members);
		return ranks_group_size(s->r, p->axes);
	}
	if (k->state == IR_RECEIVES) {
		stage = ir_attr_int(s->m, ir_node(s->m, p->node),
				    IR_ATTR_STAGE, 0);
		if (stage >= 0 && stage < s->r->nstages) {
			members[n++] = ranks_on_pipe(s->r, k->number,
				s->r->sched->rank_of[stage]);
		}
		return n;
	}
	for (i = 0; i < s->shares.n; i++) {
		const char *name = ir_text(s->m->ctx, s->shares.at[i].name);

		if (strcmp(name, p->name) == 0) {
			members[n++] = ranks_on_pipe(s->r, k->number,
						s->shares.at[i].pipe);
		}
	}
	return n;
}

static bool
same_thing(const struct sim_rank *a, const struct sim_rank *b)
{
	const struct ir_post *p = ir_machine_post(a->e);
	const struct ir_post *q = ir_machine_post(b->e);

	return a->state == b->state && p->axes == q->axes &&
	       (a->state == IR_EXCHANGES || strcmp(p->name, q->name) == 0);
}

/* Whether b, which a waits for, waits for a in another collective. */
static bool
crossed(struct sim *s, const struct sim_rank *a, const struct sim_rank *b)
{
	uint32_t i, n;

	if (b->doing != SIM_WAITS || a->state == IR_RECEIVES ||
	    b->state == IR_RECEIVES || same_thing(a, b)) {
		return false;
	}
	n = waits_for(s, b, s->others);
	for (i = 0; i < n; i++) {
		if (s->others[i] == a->number) {
			return true;
		}
	}
	return false;
}

/*
 * Reports the first two ranks that wait for each other in different
 * collectives.
 */
static bool
find_crossed(struct sim *s)
{
	uint32_t i, k, n;

	for (i = 0; i < s->r->nranks; i++) {
		if (s->ranks[i].doing != SIM_WAITS) {
			continue;
		}
		n = waits_for(s, &s->ranks[i], s->members);
		for (k = 0; k < n; k++) {
			if (crossed(s, &s->ranks[i],
				    &s->ranks[s->members[k]])) {
				sim_mismatch(s, &s->ranks[i],
					     &s->ranks[s->members[k]]);
				return true;
			}
		}
	}
	return false;
}

/* Names the ranks that k waits for and that are elsewhere. */
static const char *
missing_text(struct sim *s, const struct sim_rank *k)
{
	uint32_t n = waits_for(s, k, s->members), i, shown = 0;
	struct buf b;

	buf_init(&b, &s->m->ctx->tmp);
	for (i = 0; i < n; i++) {
		const struct sim_rank *o = &s->ranks[s->members[i]];

		if (o == k || (o->doing == SIM_WAITS &&
			       k->state != IR_RECEIVES &&
			       same_thing(k, o))) {
			continue;
		}
		if (shown++ == 3) {
			buf_puts(&b, " and others");
			break;
		}
		buf_printf(&b, "%s rank %u%s", shown > 1 ? "," : "",
			   o->number, o->doing == SIM_OVER
			   ? ", which has ended" : "");
	}
	return shown ? buf_text(&b) : " nobody";
}

void
sim_stuck(struct sim *s)
{
	uint32_t i, waiting = 0, lines = 0;

	if (find_crossed(s)) {
		return;
	}
	for (i = 0; i < s->r->nranks; i++) {
		waiting += s->ranks[i].doing == SIM_WAITS;
	}
	diag_error(s->diags, (struct span){ 0, 0 }, "no rank can go on: %u of "
		   "%u wait, the others have ended", waiting, s->r->nranks);
	for (i = 0; i < s->r->nranks && lines < MAX_LINES; i++) {
		const struct sim_rank *k = &s->ranks[i];

		if (k->doing == SIM_WAITS) {
			diag_note(s->diags, span_of(s, k), "%s waits in %s "
				  "for%s", sim_where(k), post_text(s, k),
				  missing_text(s, k));
			lines++;
		}
	}
	for (i = 0; i < s->mail.n && lines < MAX_LINES; i++, lines++) {
		const struct sim_message *g = &s->mail.at[i];

		diag_note(s->diags, g->span, "`%s` of microbatch %u came to "
			  "rank %u from stage %u, and nobody took it",
			  ir_text(s->m->ctx, g->name), g->microbatch, g->to,
			  g->from_stage);
	}
}

/* ---- what a step leaves ---- */

bool
sim_all_taken(struct sim *s)
{
	uint32_t i;

	if (s->mail.n > 0) {
		const struct sim_message *g = &s->mail.at[0];

		diag_error(s->diags, g->span, "`%s` of microbatch %u was sent "
			   "from stage %u to stage %u and never received, on "
			   "%s", ir_text(s->m->ctx, g->name), g->microbatch,
			   g->from_stage, g->to_stage,
			   ranks_text(s->r, g->to));
		return false;
	}
	for (i = 0; i < s->r->nranks; i++) {
		const char *name = ir_machine_unused(s->ranks[i].e);

		if (name) {
			diag_error(s->diags, (struct span){ 0, 0 }, "`%s` was "
				   "saved and never taken, on %s", name,
				   ranks_text(s->r, i));
			return false;
		}
	}
	return true;
}
