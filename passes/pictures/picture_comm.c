/*
 * Communication of the busiest rank, by the links that a group of ranks
 * crosses: those in a node, those between nodes, or both.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>
#include <stdlib.h>

enum comm_level { LEVEL_NODE, LEVEL_BETWEEN, LEVEL_BOTH, NLEVELS };

struct comm_row {
	enum comm_level level;
	uint32_t axes;
	const char *what;
	double count, bytes, us, shown_us;	/* in a step; bytes of all */
};

struct comm_picture {
	const struct picture_facts *f;
	VEC(struct comm_row) rows;
};

static enum comm_level
level_of(const struct comm_picture *c, uint32_t axes)
{
	struct cost_group g = price_group(c->f->in->ranks,
					  c->f->in->devs->all, axes);

	return g.nodes == 1 ? LEVEL_NODE : g.per_node == 1 ? LEVEL_BETWEEN
							     : LEVEL_BOTH;
}

static void
add_row(struct comm_picture *c, struct comm_row row)
{
	uint32_t i;

	row.level = level_of(c, row.axes);
	for (i = 0; i < c->rows.n; i++) {
		struct comm_row *r = &c->rows.at[i];

		if (r->axes == row.axes && strcmp(r->what, row.what) == 0) {
			r->count += row.count;
			r->bytes += row.bytes;
			r->us += row.us;
			r->shown_us += row.shown_us;
			return;
		}
	}
	VEC_PUSH(c->f->a, &c->rows, row);
}

/* The stage that such an action sends to; its own: it sends nothing. */
static uint32_t
receiver(const struct sched *s, const struct sched_action *x)
{
	uint32_t does = sched_kinds[x->kind].does;
	uint32_t to = does & SCHED_FORWARD ? x->stage + 1 :
		      does & SCHED_INPUT ? x->stage - 1 : x->stage;

	return to < s->nstages && s->rank_of[to] != s->rank_of[x->stage]
		? to : x->stage;
}

/* A send takes its rank no time, but others wait for it. */
static void
add_sends(struct comm_picture *c)
{
	const struct ranks *r = c->f->in->ranks;
	const struct price *p = c->f->in->price;
	const struct sched_list *l = &r->sched->ranks[c->f->kernels.rank];
	struct comm_row row = { .what = "send", .shown_us = p->hops_us };
	double most = 0;
	uint32_t i;

	if (!r->pp || p->hop_us <= 0) {
		return;
	}
	row.axes = 1u << r->pp;
	for (i = 0; i < r->sent.n; i++) {
		most = fmax(most, kernel_bytes(r->m, r->sent.at[i]));
	}
	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *x = &l->actions.at[i];

		row.count += receiver(r->sched, x) != x->stage;
	}
	row.bytes = row.count * most;
	row.us = fmax(row.count * p->hop_us, row.shown_us);
	add_row(c, row);
}

static void
collect(struct comm_picture *c)
{
	const struct answer_kernels *all = &c->f->kernels;
	uint32_t i;

	for (i = 0; i < all->at.n; i++) {
		const struct answer_kernel *k = &all->at.at[i];

		if (k->kind == KERNEL_COLLECTIVE && k->axes) {
			add_row(c, (struct comm_row){
				.axes = k->axes, .what = ir_ops[k->op].name,
				.count = k->count,
				.bytes = k->bytes * k->count,
				.us = k->all_us, .shown_us = k->us });
		}
	}
	add_sends(c);
}

static int
by_level(const void *a, const void *b)
{
	const struct comm_row *x = a, *y = b;

	return x->level != y->level ? (x->level < y->level ? -1 : 1) :
	       x->us != y->us ? (x->us > y->us ? -1 : 1) :
	       x->axes != y->axes ? (x->axes < y->axes ? -1 : 1) :
	       strcmp(x->what, y->what);
}

/* "dp and cp" */
static const char *
axes_text(const struct comm_picture *c, uint32_t axes)
{
	const struct ir_module *m = c->f->in->ranks->m;
	const char *text = "";
	uint32_t i;

	for (i = 1; i < m->axes.n; i++) {
		if (axes >> i & 1) {
			text = arena_printf(c->f->a, "%s%s%s", text,
				*text ? " and " : "",
				ir_text(m->ctx, m->axes.at[i].name));
		}
	}
	return text;
}

/* What each level is made of, of the first kind of node. */
static const char *
level_text(const struct comm_picture *c, enum comm_level level)
{
	const struct target_group *g = &c->f->in->target->groups.at[0];
	struct arena *a = c->f->a;
	const char *node = arena_printf(a, "%s, %s a device", *g->device.link
		? g->device.link : "the links of a node",
		picture_bytes_s(a, g->device.link_bytes_us * 1e6));
	const char *net = arena_printf(a, "%s, %lld ports of %s a node",
		*g->network.name ? g->network.name : "the network",
		(long long)g->network.ports,
		picture_bytes_s(a, g->network.bytes_us * 1e6));

	return level == LEVEL_NODE ? arena_printf(a, "in a node (%s)", node) :
	       level == LEVEL_BETWEEN ? arena_printf(a, "between nodes (%s)",
						     net) :
	       arena_printf(a, "in and between nodes (%s; %s)", node, net);
}

static void
add_line(const struct comm_picture *c, const struct comm_row *r, double whole,
	 struct buf *out)
{
	struct arena *a = c->f->a;

	buf_printf(out, "<tr><td>%s</td>", r->what);
	picture_cell(out, axes_text(c, r->axes));
	picture_cell(out, arena_printf(a, "%.0f", r->count));
	picture_cell(out, picture_bytes(a, r->bytes));
	picture_cell(out, picture_ms(a, r->us));
	picture_cell(out, picture_ms(a, r->shown_us));
	picture_bar(out, r->shown_us / whole, (r->us - r->shown_us) / whole);
	buf_puts(out, "</tr>\n");
}

void
picture_comm(const struct picture_facts *f, struct buf *out)
{
	static const char *const heads[] = {
		"what", "along", "calls", "bytes", "time", "that shows", ""
	};
	struct comm_picture c = { .f = f };
	double whole = 0;
	uint32_t i;

	collect(&c);
	if (!c.rows.n) {
		buf_puts(out, "<p>Nothing is sent.</p>\n");
		return;
	}
	qsort(c.rows.at, c.rows.n, sizeof *c.rows.at, by_level);
	for (i = 0; i < c.rows.n; i++) {
		whole = fmax(whole, c.rows.at[i].us);
	}
	for (i = 0; i < c.rows.n; i++) {
		if (i == 0 || c.rows.at[i].level != c.rows.at[i - 1].level) {
			if (i) {
				picture_close_table(out, false);
			}
			buf_puts(out, "<p>");
			picture_text(out, level_text(&c, c.rows.at[i].level));
			buf_puts(out, "</p>\n");
			picture_open_table(out, "communication", false, heads,
					   7);
		}
		add_line(&c, &c.rows.at[i], whole, out);
	}
	picture_close_table(out, false);
}
