/*
 * What the host program itself does with a GPU's memory, which it can only
 * point at: functions of codegen/cuda/prelude/services.cu, whose head says
 * what each is called with.  Their sizes are numbers of the call, so that one
 * of each serves all plans.
 */
#include "codegen/host/host.h"

#define THREADS 256
#define MOST_BLOCKS 1024	/* each goes on with what is left */

/* A function of services.cu, and how many threads have something to do. */
struct service {
	const char *func, *what;
	uint32_t nat, npieces, nnum;
	int64_t threads, at_bytes[2];
	double bytes;
};

static void
launch(struct host_func *f, const struct service *s)
{
	struct arena *a = f->c->a;
	struct cg_grid *g = arena_alloc(a, sizeof *g);
	struct cg_kernel k = { .what = s->what };
	const struct cg_operand operand = { 0 };
	const struct cg_spread spread = { 0 };
	const struct cg_num num = { 0 };
	struct cg_step step = { .grid = g };
	int64_t blocks = (s->threads + THREADS - 1) / THREADS;
	uint32_t i;

	*g = (struct cg_grid){ .func = s->func, .blocks = { 1, 1, 1 },
			       .threads = THREADS, .cluster = 1 };
	g->blocks[0] = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS
							     : blocks;
	for (i = 0; i < s->nat; i++) {
		VEC_PUSH(a, &k.operands, operand);
	}
	for (i = 0; i < s->npieces; i++) {
		VEC_PUSH(a, &k.spreads, spread);
	}
	for (i = 0; i < s->nnum; i++) {
		VEC_PUSH(a, &k.nums, num);
	}
	VEC_PUSH(a, &k.steps, step);
	host_launch(f, host_own_kernel(f->c, &k, s->at_bytes, s->bytes));
}

static void
put_num(struct host_func *f, uint32_t i, int64_t v)
{
	host_put(f, f->num, i, ll_i64(f->c->ll, v));
}

void
host_service_copy(struct host_func *f, struct ll_value *from,
		  struct ll_value *to, int64_t bytes)
{
	const struct service s = {
		"copy", arena_printf(f->c->a, "copy %lld bytes",
				     (long long)bytes), 2, 0, 1,
		bytes / 16 + 1, { bytes, bytes }, 2 * (double)bytes
	};

	host_put(f, f->at, 0, from);
	host_put(f, f->at, 1, to);
	put_num(f, 0, bytes);
	launch(f, &s);
}

void
host_service_step(struct host_func *f, struct ll_value *to)
{
	const struct service s = { "put_step", "step", 1, 0, 0, 1, { 4 },
				   4 };

	host_put(f, f->at, 0, to);
	launch(f, &s);
}

void
host_service_root(struct host_func *f, struct ll_value *from,
		  struct ll_value *to)
{
	const struct service s = { "root", "root", 2, 0, 0, 1, { 4, 4 },
				   8 };

	host_put(f, f->at, 0, from);
	host_put(f, f->at, 1, to);
	launch(f, &s);
}

void
host_service_keep_own(struct host_func *f, const struct host_rows *x)
{
	const struct service s = { "keep_own", "rows of experts elsewhere",
				   2, 1, 3 + 2 * IR_MAX_DIMS, x->n * 32,
				   { x->n * x->bytes, -1 },
				   (double)(x->n * x->bytes) };
	uint32_t i;

	put_num(f, 0, x->n);
	put_num(f, 1, x->bytes);
	put_num(f, 2, x->ndims);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		bool is = i < x->ndims;

		put_num(f, 3 + i, is ? x->size[i] : 1);
		put_num(f, 3 + IR_MAX_DIMS + i, is ? x->apart[i] : 0);
	}
	launch(f, &s);
}

void
host_service_fill(struct host_func *f, const struct host_fill *x,
		  struct ll_value *key, struct ll_value *to)
{
	enum ir_dtype dtype = (enum ir_dtype)x->type.dtype;
	struct service s = { "fill", x->how == 'b' ? "draw" : "fill", 1,
			     IR_MAX_DIMS, 8 + IR_MAX_DIMS, 1, { 0 }, 0 };
	struct ir_module *m = f->c->m;
	uint32_t n = x->type.ndims - x->stacked, i;

	host_put(f, f->at, 0, to);
	host_put(f, f->num, 0, key);
	put_num(f, 1, x->how);
	put_num(f, 2, (int64_t)num_bits(x->std));
	put_num(f, 3, x->below);
	put_num(f, 4, host_elem(dtype));
	put_num(f, 5, n);
	put_num(f, 6, x->more);
	put_num(f, 7, x->shift);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		uint32_t d = x->stacked + (i < n ? i : 0);
		int64_t size = n ? ir_dim_size(m, x->type.dims[d]) : 1;

		s.threads *= i < n ? host_local(f->k, x->type.dims[d],
						x->type.cut[d]) : 1;
		put_num(f, 8 + i, size);
		/* those of no dim are never looked at */
		host_put(f, f->pieces, i, host_pieces(f, n
			? host_spread(f->c, size, x->type.cut[d]) : 0));
	}
	s.at_bytes[0] = s.threads * ir_dtypes[dtype].bits / 8;
	s.bytes = (double)s.at_bytes[0];
	launch(f, &s);
}
