/*
 * Weights out of safetensors, by the names of the model.  A stored tensor may
 * have fewer dims than ours, as [4096, 8192] has for [heads, hd, hidden]: each
 * stored extent is the product of some of our dims, in order.
 */
#include "frontend/driver.h"

#include "runtime/rt.h"

#include <string.h>

#define MAX_UNUSED 20	/* warnings: more of them teach nothing */

struct drv_weights {
	struct ir_module *m;
	struct rt_st *st;
	const char *path;
	bool *used;		/* by index of rt_st_at */
	struct ir_weights source;
};

static size_t
index_of(const struct rt_st *st, const char *name)
{
	size_t lo = 0, hi = rt_st_count(st);

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(rt_st_at(st, mid)->name, name) <= 0) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/* How much of the two agrees, from both ends. */
static size_t
agreement(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), n = na < nb ? na : nb;
	size_t head = 0, tail = 0;

	while (head < n && a[head] == b[head]) {
		head++;
	}
	while (tail < n - head && a[na - 1 - tail] == b[nb - 1 - tail]) {
		tail++;
	}
	return head + tail;
}

/* Tensor names are long and differ in one part: so not by edit distance. */
static const char *
nearest(const struct rt_st *st, const char *name)
{
	size_t least = strlen(name) * 2 / 3, i;
	const char *best = NULL;

	for (i = 0; i < rt_st_count(st); i++) {
		const char *other = rt_st_at(st, i)->name;
		size_t n = agreement(name, other);

		if (n > least) {
			least = n;
			best = other;
		}
	}
	return best;
}

static bool
no_tensor(const struct drv_weights *w, const char *name, struct span at)
{
	struct diags *d = &w->m->ctx->diags;
	const char *near = nearest(w->st, name);

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
	uint8_t k = 0;
	int i;

	for (i = 0; i < s->ndim; i++) {
		int64_t n = 1;

		while (k < t->ndims && n < s->shape[i]) {
			if (!num_mul(n, ir_dim_size(m, t->dims[k++]), &n)) {
				return false;
			}
		}
		if (n != s->shape[i]) {
			return false;
		}
	}
	while (k < t->ndims && ir_dim_size(m, t->dims[k]) == 1) {
		k++;
	}
	return k == t->ndims;
}

static bool
bad_shape(const struct drv_weights *w, const struct ir_type *t,
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
	struct drv_weights *w = user;
	const struct rt_st_tensor *t = rt_st_find(w->st, name);
	struct rt_error err;

	(void)op;
	if (!t) {
		return no_tensor(w, name, at);
	}
	w->used[index_of(w->st, name)] = true;
	if (!fits(w->m, type, t) || rt_st_elems(t) != elems) {
		return bad_shape(w, type, t, at);
	}
	if (rt_st_read_f64(w->st, t, 0, elems, out, &err) != RT_OK) {
		diag_error(&w->m->ctx->diags, at, "%s", err.message);
		return false;
	}
	return true;
}

/* What the optimizer keeps is not the model's. */
static bool
has(void *user, enum ir_op op, const char *name)
{
	(void)user;
	(void)name;
	return ir_is(op, IRF_LOADED);
}

struct drv_weights *
drv_weights_open(struct ir_module *m, const char *path)
{
	struct drv_weights *w = arena_alloc(&m->ctx->perm, sizeof *w);
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
drv_weights_source(struct drv_weights *w)
{
	return &w->source;
}

void
drv_weights_close(struct drv_weights *w)
{
	struct diags *d = &w->m->ctx->diags;
	size_t i, unused = 0;

	for (i = 0; i < rt_st_count(w->st); i++) {
		if (!w->used[i] && unused++ < MAX_UNUSED) {
			diag_warn(d, WARN_UNUSED_TENSOR, (struct span){ 0, 0 },
				  "the model does not read `%s` of %s",
				  rt_st_at(w->st, i)->name, w->path);
		}
	}
	if (unused > MAX_UNUSED) {
		diag_note(d, (struct span){ 0, 0 }, "and %zu more of it",
			  unused - MAX_UNUSED);
	}
	rt_st_free(w->st);
}
