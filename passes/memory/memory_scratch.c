/*
 * Scratch of code that does not exist yet.  A search compares plans by what
 * they need on a device, and kernels need memory beside the arena: partial
 * sums, lists, what collectives pack.  The code generator states upper bounds
 * as data (struct memory_scratch), and this file evaluates them for the
 * kernels of rank programs; emitting the kernels would take far longer.
 *
 * Collectives are counted by the rule by which the runtime packs: a part that
 * is contiguous on both ranks is sent from its place, all others are packed.
 * Pieces are taken to be as even as the largest one.
 */
#include "passes/memory/memory.h"

struct estimate {
	const struct ranks *r;
	struct ir_module *m;
	const struct memory_scratch *s;
	int64_t shared, own, packed;	/* of the kernel that needs most */
};

/* ---- kernels ---- */

static int64_t
bounded(const struct memory_scratch_bound *b, double bytes)
{
	double x = (double)b->base + b->per_byte * bytes;

	return x < (double)b->most ? (int64_t)x : b->most;
}

static void
raise_to(int64_t *most, int64_t bytes)
{
	*most = bytes > *most ? bytes : *most;
}

/* What a worker keeps of attention. */
static int64_t
attention_own(const struct memory_scratch *s, const struct kernel_attention *x)
{
	double joint = x->kv > 0 ? 4 * x->s * x->d * x->heads / x->kv : 0;
	double bytes = s->own_per_head_elem * (x->d + x->v);

	return (int64_t)(bytes + (joint <= (double)s->most_joint ? joint : 0));
}

/* Queries are in tiles of so many. */
#define QUERIES 64

/* What all workers need of attention, with sums of gradients. */
static int64_t
with_sums(const struct memory_scratch *s, const struct kernel_attention *x,
	  int64_t shared)
{
	double rows = x->batch * x->heads * (x->s + QUERIES - 1);
	double sums = s->sums.per_query * rows;

	if (x->d <= s->sums.above || x->d > s->sums.upto) {
		return shared;
	}
	return shared + (sums < (double)s->sums.most ? (int64_t)sums
						     : s->sums.most);
}

/* What it reads and writes, with all others of its launch. */
static double
launch_bytes(const struct kernel *k)
{
	double bytes = k->work->read_bytes + k->work->write_bytes;
	uint32_t i;

	for (i = 0; k->launch && i < k->launch->n; i++) {
		const struct kernel_work *w = k->launch->of[i]->work;

		bytes += i == k->launch->at ? 0 : w->read_bytes +
						  w->write_bytes;
	}
	return bytes;
}

static void
count_kernel(struct estimate *e, const struct kernel *k)
{
	const struct kernel_coll *coll = &k->work->coll;
	double bytes = launch_bytes(k);
	int64_t shared = bounded(&e->s->shared[k->kind], bytes);
	int64_t own = bounded(&e->s->own[k->kind], bytes);

	/* keys of other ranks are gathered, their gradients reduced; each
	 * tensor is packed by itself */
	if (k->kind == KERNEL_ATTENTION && coll->axes) {
		bytes = e->s->per_gathered * coll->bytes *
			ranks_group_size(e->r, coll->axes);
		shared += (int64_t)bytes;
		raise_to(&e->packed, e->s->packs ? (int64_t)(bytes / 2) : 0);
	}
	if (k->work->attention) {
		shared = with_sums(e->s, k->work->attention, shared);
	}
	raise_to(&e->shared, shared);
	own += k->work->attention ? attention_own(e->s, k->work->attention) : 0;
	raise_to(&e->own, own);
}

/* ---- collectives ---- */

static uint32_t
axes_in(uint32_t cut)
{
	uint32_t axes = 0;

	for (; cut; cut >>= 4) {
		axes |= (uint32_t)1 << (cut & 15);
	}
	return axes;
}

/* Into how many pieces the axes of the set cut. */
static int64_t
pieces_along(const struct ir_module *m, uint32_t axes)
{
	int64_t n = 1;
	axis_id a;

	for (a = 1; a < m->axes.n; a++) {
		n *= axes >> a & 1 ? m->axes.at[a].size : 1;
	}
	return n;
}

static bool
is_any_balanced(const struct ir_module *m, uint32_t axes)
{
	axis_id a;

	for (a = 1; a < m->axes.n; a++) {
		if (axes >> a & 1 && m->axes.at[a].balanced) {
			return true;
		}
	}
	return false;
}

/* Whether what an `here` piece has of a `there` piece is contiguous here. */
static bool
is_contiguous(const struct ir_module *m, const struct ir_type *here,
	      const struct ir_type *there)
{
	bool single = true;	/* all dims so far have one position */
	uint32_t i;

	for (i = 0; i < here->ndims; i++) {
		uint32_t own = axes_in(here->cut[i]);
		uint32_t both = own | axes_in(there->cut[i]);
		int64_t size = ir_dim_size(m, here->dims[i]);
		int64_t parts = pieces_along(m, both);
		int64_t overlap = (size + parts - 1) / parts;

		if (is_any_balanced(m, both & ~own) ||
		    (!single && overlap < ir_most(m, size, here->cut[i]))) {
			return false;
		}
		single = single && overlap <= 1;
	}
	return true;
}

/* One collective: what it packs to send, and to receive. */
static int64_t
packed_bytes(const struct estimate *e, const struct ir_node *n)
{
	const struct ir_module *m = e->m;
	const struct ir_attr *on = ir_attr(m, n, IR_ATTR_ON);
	value_id v = ir_args(m, n)[0];
	const struct ir_type *in = ir_type(m, v);
	const struct ir_type *out = ir_type(m, n->result);
	uint32_t axes = 0, cut_in = 0, cut_out = 0, i;
	double ranks, bytes = 0;
	bool moves = false, sums;

	for (i = 0; on && i < on->ndims; i++) {
		axes |= (uint32_t)1 << on->dims[i];
	}
	for (i = 0; i < in->ndims; i++) {
		moves |= in->cut[i] != out->cut[i];
		cut_in |= axes_in(in->cut[i]);
		cut_out |= axes_in(out->cut[i]);
	}
	ranks = ranks_group_size(e->r, axes);
	if (ranks <= 1 || !moves) {
		return 0;
	}
	sums = (uint32_t)in->sum << 1 & axes || n->op == IR_COMBINE;
	if (!is_contiguous(m, in, out)) {
		bytes += kernel_reserved_bytes(m, v) * ranks /
			 (double)pieces_along(m, cut_out & axes);
	}
	if (sums || !is_contiguous(m, out, in)) {
		bytes += kernel_reserved_bytes(m, n->result) * ranks /
			 (double)pieces_along(m, cut_in & axes);
	}
	return (int64_t)(bytes + 2 * ranks * MEMORY_ALIGN);
}

/* Those that are one call pack side by side. */
static void
count_collective(struct estimate *e, const struct kernel *k)
{
	int64_t bytes = 0;
	uint32_t i;

	for (i = 0; e->s->packs && i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(e->m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_COMM) && !ir_is(n->op, IRF_PEER) &&
		    n->op != IR_SHARE) {
			bytes += packed_bytes(e, n);
		}
	}
	raise_to(&e->packed, bytes);
}

/* ---- programs ---- */

static void
count_list(struct estimate *e, const struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		parts_open(e->m, k);
		if (k->body) {
			count_list(e, k->body);
		} else if (k->kind == KERNEL_COLLECTIVE) {
			count_collective(e, k);
		} else {
			count_kernel(e, k);
		}
		parts_close(e->m, k);
	}
}

static int64_t
aligned(int64_t bytes)
{
	return (bytes + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
}

static int64_t
pipe_bytes(struct estimate e, struct kernels *const *all, uint32_t pipe)
{
	uint32_t i, kind;

	for (i = 0; i < e.r->nstages; i++) {
		for (kind = 0; kind < SCHED_NKINDS; kind++) {
			func_id f = e.r->of_stage[i][kind];

			if (f && e.r->sched->rank_of[i] == pipe) {
				count_list(&e, all[f]->top);
			}
		}
	}
	if (e.r->update[pipe]) {
		count_list(&e, all[e.r->update[pipe]]->top);
	}
	return e.s->fixed + aligned(e.shared) + aligned(e.packed) +
	       e.s->workers * aligned(e.own);
}

int64_t
memory_scratch_bytes(const struct ranks *r, struct kernels *const *all,
		     const struct memory_scratch *s)
{
	struct estimate e = { .r = r, .m = r->m, .s = s };
	int64_t most = 0;
	uint32_t i;

	for (i = 0; i < r->npipes; i++) {
		raise_to(&most, pipe_bytes(e, all, i));
	}
	return most;
}
