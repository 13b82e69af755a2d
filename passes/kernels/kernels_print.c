/*
 * Kernels as a table, one a line and repeats as blocks: --emit=kernels, and the
 * rows of --explain=cost.
 */
#include "passes/kernels/kernels.h"

#include <math.h>
#include <string.h>

#define MAX_OPS 5	/* named in a line; the rest are counted */

static void
put_amount(struct buf *out, double v, const char *unit)
{
	static const char *const prefix[] = { "", "k", "M", "G", "T", "P",
					      "E", "Z", "Y" };
	char text[32];
	int i = 0;

	while (v >= 999.5 && i < 8) {
		v /= 1000;
		i++;
	}
	snprintf(text, sizeof text, v < 9.995 && i ? "%.2f%s%s"
		 : v < 99.95 && i ? "%.1f%s%s" : "%.0f%s%s", v, prefix[i],
		 unit);
	buf_printf(out, " %7s", text);
}

/* ---- shapes ---- */

static void
put_shape(const struct ir_module *m, const struct kernel *k, struct buf *out)
{
	const struct kernel_dot *d = &k->work->dot;
	const struct kernel_attention *t = k->work->attention;
	const struct ir_type *s = k->work->shape;
	struct buf b;
	uint32_t i;

	buf_init(&b, &m->ctx->tmp);
	switch (k->kind) {
	case KERNEL_CONTRACTION:
		buf_printf(&b, "%.0fx%.0fx%.0f", d->m, d->n, d->k);
		if (d->batch > 1) {
			buf_printf(&b, " batch=%.0f", d->batch);
		}
		if (d->groups > 1) {
			buf_printf(&b, " groups=%.0f", d->groups);
		}
		break;
	case KERNEL_ATTENTION:
		buf_printf(&b, "b=%.0f h=%.0f/%.0f s=%.0f/%.0f d=%.0f",
			   t->batch, t->heads, t->kv, t->s, t->t, t->d);
		if (t->v > 0 && t->v < t->d) {
			buf_printf(&b, "/%.0f", t->v);
		}
		break;
	case KERNEL_COLLECTIVE:
		buf_puts(&b, "on");
		for (i = 1; i < m->axes.n; i++) {
			if (k->work->coll.axes >> i & 1) {
				buf_printf(&b, " %s", ir_axis_name(m, i));
			}
		}
		if (!k->work->coll.axes) {
			buf_puts(&b, " stages");
		}
		break;
	default:
		for (i = 0; i < s->ndims; i++) {
			buf_printf(&b, "%s%lld", i ? "x" : "", (long long)
				   ir_most(m, ir_dim_size(m, s->dims[i]),
					   s->cut[i]));
		}
		if (k->work->shape->ndims == 0) {
			buf_puts(&b, "1");
		}
		break;
	}
	buf_printf(out, " %-30s", buf_text(&b));
}

/* ---- ops and names ---- */

static void
put_ops(const struct ir_module *m, const struct kernel *k, struct buf *out)
{
	uint32_t i, shown = 0, run, left = 0, colls = k->work->coll.n;

	if (colls > 1) {	/* each with its store */
		buf_printf(out, "%s*%u", ir_ops[k->work->coll.op].name, colls);
		if (k->nodes.n > colls) {
			buf_printf(out, "+store*%u", k->nodes.n - colls);
		}
		return;
	}
	for (i = 0; i < k->nodes.n; i += run) {
		uint16_t op = ir_node(m, k->nodes.at[i])->op;

		for (run = 1; i + run < k->nodes.n &&
		     ir_node(m, k->nodes.at[i + run])->op == op; run++) {
		}
		if (shown == MAX_OPS) {
			left += run;
			continue;
		}
		buf_printf(out, "%s%s", shown ? "+" : "", ir_ops[op].name);
		if (run > 1) {
			buf_printf(out, "*%u", run);
		}
		shown++;
	}
	if (left) {
		buf_printf(out, "+%u more", left);
	}
}

static const char *
name_of(const struct ir_module *m, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(m, n, IR_ATTR_NAME);

	return a && a->text ? ir_text(m->ctx, a->text) : "";
}

/* Names of outputs in the model's text, and of the tensors it writes. */
static void
put_names(const struct ir_module *m, const struct kernel *k, struct buf *out)
{
	const char *before = ": ";
	uint32_t i;

	for (i = 0; i < k->outputs.n; i++) {
		sym_t hint = m->values.at[k->outputs.at[i].value].hint;

		if (hint) {
			buf_printf(out, "%s%s", before, ir_text(m->ctx, hint));
			before = ", ";
		}
	}
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_SINK | IRF_PEER)) {
			buf_printf(out, "%s%s", before, name_of(m, n));
			before = ", ";
		}
	}
	for (i = 0; k->kind == KERNEL_CONTRACTION && i < k->inputs.n; i++) {
		node_id id = m->values.at[k->inputs.at[i].value].node;

		if (id && ir_is(ir_node(m, id)->op, IRF_PARAM)) {
			buf_printf(out, " by %s", name_of(m, ir_node(m, id)));
		}
	}
	if (k->launch) {
		buf_printf(out, " (%u of %u %sin one launch)",
			   k->launch->at + 1, k->launch->n,
			   k->launch->sums ? "added up "
			   : k->launch->paired ? "paired " : "");
	}
}

/* ---- tables ---- */

void
kernel_print(const struct ir_module *m, const struct kernel *k, struct buf *out)
{
	buf_printf(out, "%-11s", kernel_kind_name(k->kind));
	put_shape(m, k, out);
	buf_puts(out, "  ");
	put_ops(m, k, out);
	put_names(m, k, out);
}

const char *
kernel_squeezed(const char *text, struct arena *a)
{
	struct buf out;

	buf_init(&out, a);
	for (; *text; text++) {
		if (*text != ' ' || (text[1] && text[1] != ' ')) {
			buf_putc(&out, *text);
		}
	}
	return buf_text(&out);
}

const char *
kernel_coll_text(const struct ir_module *m, const struct ir_node *n,
		 value_id v, uint32_t axes, struct arena *a)
{
	sym_t hint = m->values.at[v].hint;
	const char *name = name_of(m, n), *before = " on ";
	struct buf b;
	axis_id i;

	buf_init(&b, a);
	buf_puts(&b, ir_ops[n->op].name);
	if (*name || hint) {
		buf_printf(&b, " %s", *name ? name : ir_text(m->ctx, hint));
	}
	for (i = 1; i < m->axes.n; i++) {
		if (axes >> i & 1) {
			buf_printf(&b, "%s%s", before, ir_axis_name(m, i));
			before = "+";
		}
	}
	return buf_text(&b);
}

const char *
kernel_comm_text(const struct ir_module *m, const struct kernel *k,
		 struct arena *a)
{
	const struct ir_node *n = ir_node(m, k->nodes.at[0]);
	const char *first = kernel_coll_text(m, n, n->result,
					     k->work->coll.axes, a);

	return k->work->coll.n > 1
		? arena_printf(a, "%s, and %u more", first,
			       k->work->coll.n - 1) : first;
}

struct shown_list {
	const struct ir_module *m;
	kernel_shares *shares;	/* NULL: all do */
	void *user_data;
	struct buf *out;
};

/* The kernel; without its launch, if that is not shared. */
static struct kernel
as_launched(const struct shown_list *t, const struct kernel *k)
{
	struct kernel x = *k;

	if (x.launch && t->shares && !t->shares(k, t->user_data)) {
		x.launch = NULL;
	}
	return x;
}

struct shown_sum {
	double launches, read_bytes, write_bytes;
};

static void
add_up(const struct shown_list *t, const struct kernel_list *l, double times,
       struct shown_sum *to)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel x = as_launched(t, &l->at.at[i]);
		double read, write;

		if (x.kind == KERNEL_REPEAT) {
			add_up(t, x.body, times * (double)x.body->count, to);
			continue;
		}
		kernel_member_bytes(&x, &read, &write);
		to->launches += kernel_follows(&x) ? 0 : times;
		to->read_bytes += times * read;
		to->write_bytes += times * write;
	}
}

static void
put_list(const struct shown_list *t, const struct kernel_list *l,
	 uint32_t depth)
{
	struct buf *out = t->out;
	uint32_t i, number = 0;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel k = as_launched(t, &l->at.at[i]);
		double read, write;

		if (k.kind == KERNEL_REPEAT) {
			buf_printf(out, "%*s%lld times:\n", 2 * depth + 2, "",
				   (long long)k.body->count);
			put_list(t, k.body, depth + 1);
			continue;
		}
		buf_printf(out, "%*s%*u %-11s", 2 * depth, "", 4, ++number,
			   kernel_kind_name(k.kind));
		put_shape(t->m, &k, out);
		put_amount(out, k.work->flops, "");
		kernel_member_bytes(&k, &read, &write);
		put_amount(out, read, "B");
		put_amount(out, write, "B");
		buf_puts(out, "  ");
		put_ops(t->m, &k, out);
		put_names(t->m, &k, out);
		buf_putc(out, '\n');
	}
}

void
kernels_print(struct ir_module *m, struct kernels *const *all,
	      kernel_shares *shares, void *user_data, struct buf *out)
{
	const struct shown_list t = { m, shares, user_data, out };
	func_id i;

	for (i = 1; i < m->funcs.n; i++) {
		const struct kernels *ks = all[i];
		struct shown_sum sum = { 0 };

		add_up(&t, ks->top, 1, &sum);
		buf_printf(out, "%s%s: %.0f kernels,", i > 1 ? "\n" : "",
			   m->funcs.at[i].is_model ? "model"
				: ir_text(m->ctx, m->funcs.at[i].name),
			   sum.launches);
		put_amount(out, ks->flops, "flop,");
		put_amount(out, sum.read_bytes, "B read,");
		put_amount(out, sum.write_bytes, "B written\n");
		put_list(&t, ks->top, 0);
	}
}
