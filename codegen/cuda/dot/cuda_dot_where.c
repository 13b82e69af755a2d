/*
 * Positions of a contraction's factors as C text: their offsets in operands,
 * their blocks, and their places in tiles.  Below all other files of this
 * folder.
 */
#include "codegen/cuda/dot/cuda_dot.h"

/* ---- factors ---- */

bool
cu_factor_dense(const struct cg_factor *f, int which)
{
	return f->n > 0 && f->at[f->n - 1].stride[which] == 1;
}

const char *
cu_factor_at(struct arena *a, const struct cg_factor *f, int which,
	     const char *i)
{
	const char *sum = NULL, *here;
	int64_t below = 1;
	uint32_t r;

	for (r = f->n; r-- > 0;) {
		const struct cg_run *x = &f->at[r];

		here = below == 1 ? i
			: arena_printf(a, "%s / %lld", i, (long long)below);
		if (r > 0) {
			here = arena_printf(a, "%s %% %lld", here,
					    (long long)x->size);
		}
		below *= x->size;
		if (x->stride[which] == 0) {
			continue;
		}
		here = x->stride[which] == 1
			? arena_printf(a, "(i64)(%s)", here)
			: arena_printf(a, "(i64)(%s) * %lld", here,
				       (long long)x->stride[which]);
		sum = sum ? arena_printf(a, "%s + %s", here, sum) : here;
	}
	return sum ? arena_printf(a, "(%s)", sum) : "(i64)0";
}

/* ---- how much lies side by side ---- */

static int64_t
shared_width(int64_t n, int64_t most)
{
	while (most > 1 && n % most != 0) {
		most /= 2;
	}
	return most;
}

int64_t
cu_factor_apart(const struct cg_factor *f, int which, int64_t most)
{
	uint32_t r;

	for (r = 0; r < f->n; r++) {
		most = shared_width(f->at[r].stride[which], most);
	}
	return most;
}

int64_t
cu_factor_width(const struct cg_factor *f, int which, int64_t most)
{
	uint32_t r;

	for (r = 0; r + 1 < f->n; r++) {
		most = shared_width(f->at[r].stride[which], most);
	}
	return f->n > 1 ? shared_width(f->at[f->n - 1].size, most) : most;
}

int64_t
cu_view_width(struct cu_kernel *k, const struct cg_view *v, int64_t most)
{
	uint32_t i;

	most = shared_width(v->offset, most);
	most = shared_width(cu_view_whole(k, v), most);
	for (i = 0; i < v->nmoved; i++) {
		most = shared_width(v->moved[i].stride, most);
	}
	return most;
}

/* ---- rows of the result ---- */

bool
cu_dot_find_pitch(struct cu_dot *d, value_id v)
{
	const struct cg_cuda *c = d->k->c;
	const struct ir_type *t = ir_type(c->m, v);
	const struct cg_dims *n = &d->dims[2];

	d->pitch = d->n.size;
	if (!c->apart || !c->apart[v]) {
		return true;
	}
	d->pitch = cg_row_pitch(c->m, c->apart, v, d->n.size);
	return n->n == 1 && n->at[0] == t->ndims - 1;
}

/* ---- blocks that are boxes ---- */

/* Whether blocks of that many positions, one after another, are boxes. */
bool
cu_blocks_are_boxes(const int64_t *size, uint32_t n, int64_t block)
{
	while (n-- > 1) {
		if (block % size[n] != 0) {
			return size[n] % block == 0;
		}
		block /= size[n];
	}
	return true;
}

struct cg_split
cu_split_of(const struct cg_dims *d, int64_t want, int64_t unit)
{
	struct cg_split s = cg_split_begin(d, want);
	int64_t even = cu_round_up(num_ceil_div(d->size[s.cut], s.chunks),
				   unit);

	if (s.inner == 1 && even <= want) {
		s.step = even;
	}
	cg_split_end(d, &s);
	return s;
}

void
cu_dims_flatten(struct cg_dims *d)
{
	while (d->n > 1) {
		d->n--;
		d->size[d->n - 1] *= d->size[d->n];
	}
}

struct cu_place
cu_place_of(struct cu_func *f, const char *name, const struct cg_dims *d,
	    const struct cg_split *s, const char *block)
{
	struct arena *a = f->k->c->a;
	long long size = (long long)d->size[s->cut], all = s->chunks;
	long long step = (long long)s->step, inner = (long long)s->inner;
	struct cu_place p = {
		.outer = s->cut == 0 ? "0" : all == 1 ? block
			: arena_printf(a, "(%s / %lld)", block, all),
		.chunk = all == 1 ? "0" : s->cut == 0 ? block
			: arena_printf(a, "(%s %% %lld)", block, all),
		.start = arena_printf(a, "%s0", name),
		.live = arena_printf(a, "%lld", step * inner)
	};

	if (all * step == size || s->cut == 0) {
		cu_line(f, "const int %s = %s * %lld;", p.start, block,
			step * inner);
	} else {
		cu_line(f, "const int %s = (%s * %lld + %s * %lld) * %lld;",
			p.start, p.outer, size, p.chunk, step, inner);
	}
	if (all * step != size) {
		p.live = arena_printf(a, "%s_live", name);
		cu_line(f, "const int %s = %s == %lld ? %lld : %lld;", p.live,
			p.chunk, all - 1, (size - step * (all - 1)) * inner,
			step * inner);
	}
	return p;
}

void
cu_place_leaf(struct arena *a, struct cu_nest *n, struct cu_leaf *leaf,
	      const struct cg_dims *d, const struct cg_split *s,
	      const struct cu_place *p, int64_t stride)
{
	const char *outer = p->outer;
	uint32_t i;

	for (i = d->n; i-- > 0;) {
		int at = d->at[i];

		if (at < 0) {
			continue;
		}
		if (i >= s->cut) {
			leaf->stride[at] = stride;
			stride *= d->size[i];
		}
		if (i == s->cut && s->chunks > 1) {
			n->from[at] = arena_printf(a, "(%s * %lld)", p->chunk,
						   (long long)s->step);
			n->count[at] = s->step;
			n->unit[at] = s->step;
			if (d->size[i] % s->step != 0) {
				n->live[at] = arena_printf(a, "(%s / %lld)",
					p->live, (long long)s->inner);
			}
		}
		if (i < s->cut) {
			n->from[at] = arena_printf(a, "(%s %% %lld)", outer,
						   (long long)d->size[i]);
			n->count[at] = 1;
			outer = arena_printf(a, "(%s / %lld)", outer,
					     (long long)d->size[i]);
		}
	}
}
