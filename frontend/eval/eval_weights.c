/*
 * Weights from safetensors, by the names of the model.  A tensor of the file
 * may have fewer dims than the model's, as [4096, 8192] for [heads, hd,
 * hidden]: each extent in the file is then the product of neighbouring dims.
 */
#include "frontend/eval/eval.h"

#include "runtime/rt.h"

#include <string.h>

struct eval_weights {
	struct ir_module *m;
	struct rt_st *st;
	const char *path;
	bool *used;		/* by index of rt_st_at(): was read */
	struct ir_weights source;
};

static bool
no_tensor(const struct eval_weights *w, const char *name, struct span at)
{
	struct diags *d = &w->m->ctx->diags;
	const char *near = rt_st_nearest(w->st, name);

	diag_error(d, at, "%s has no tensor `%s`", w->path, name);
	if (near) {
		diag_note(d, (struct span){ 0, 0 }, "the nearest that it has "
			  "is `%s`", near);
	}
	return false;
}

static bool
fits(const struct ir_module *m, const struct ir_type *t,
     const struct rt_st_tensor *s)
{
	int64_t sizes[IR_MAX_DIMS];
	uint8_t i;

	for (i = 0; i < t->ndims; i++) {
		sizes[i] = ir_dim_size(m, t->dims[i]);
	}
	return rt_st_fits(s, sizes, t->ndims);
}

static bool
bad_shape(const struct eval_weights *w, const struct ir_type *t,
	  const struct rt_st_tensor *s, struct span at)
{
	struct arena *a = &w->m->ctx->perm;
	struct buf ours, stored;
	int i;

	buf_init(&ours, a);
	buf_init(&stored, a);
	for (i = 0; i < t->ndims; i++) {
		buf_printf(&ours, "%s%s=%lld", i ? ", " : "",
			   ir_dim_name(w->m, t->dims[i]),
			   (long long)ir_dim_size(w->m, t->dims[i]));
	}
	for (i = 0; i < s->ndim; i++) {
		buf_printf(&stored, "%s%lld", i ? ", " : "",
			   (long long)s->shape[i]);
	}
	diag_error(&w->m->ctx->diags, at, "`%s` of %s is [%s], and [%s] or "
		   "products of neighbours in it are expected", s->name,
		   w->path, buf_text(&stored), buf_text(&ours));
	return false;
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	struct eval_weights *w = user;
	const struct rt_st_tensor *t = rt_st_find(w->st, name);
	struct rt_error err;

	(void)op;
	if (!t) {
		return no_tensor(w, name, at);
	}
	w->used[t - rt_st_at(w->st, 0)] = true;
	if (!fits(w->m, type, t) || rt_st_elems(t) != elems) {
		return bad_shape(w, type, t, at);
	}
	if (rt_st_read_f64(w->st, t, 0, elems, out, &err) != RT_OK) {
		diag_error(&w->m->ctx->diags, at, "%s", err.message);
		return false;
	}
	return true;
}

/* A checkpoint holds weights, and no states of the optimizer. */
static bool
has(void *user, enum ir_op op, const char *name)
{
	(void)user;
	(void)name;
	return ir_is(op, IRF_LOADED);
}

struct eval_weights *
eval_weights_open(struct ir_module *m, const char *path)
{
	struct eval_weights *w = arena_alloc(&m->ctx->perm, sizeof *w);
	struct rt_error err;

	if (rt_st_open_any(&w->st, path, NULL, &err) != RT_OK) {
		diag_error(&m->ctx->diags, (struct span){ 0, 0 }, "%s",
			   err.message);
		return NULL;
	}
	w->m = m;
	w->path = path;
	w->used = arena_alloc(&m->ctx->perm,
			      rt_st_count(w->st) * sizeof *w->used);
	w->source.get = get;
	w->source.has = has;
	w->source.user = w;
	return w;
}

const struct ir_weights *
eval_weights_source(struct eval_weights *w)
{
	return &w->source;
}

bool
eval_weights_check(struct eval_weights *w, bool allow_unused)
{
	struct rt_error err;

	if (allow_unused ||
	    rt_st_check_used(w->st, w->path, w->used, &err) == RT_OK) {
		return true;
	}
	diag_error(&w->m->ctx->diags, (struct span){ 0, 0 }, "%s",
		   err.message);
	return false;
}

void
eval_weights_close(struct eval_weights *w)
{
	if (w) {
		rt_st_free(w->st);
	}
}
