/*
 * Names and shapes of a model's weights beside those of .safetensors files.
 * What differs is shown where the model makes the weight.
 */
#include "frontend/import/import.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/rt.h"

#define MOST_ERRORS 8

/* The iteration of a repeat, and of those around it. */
struct iteration {
	const char *var;
	int64_t at;
	const struct iteration *outer;
};

struct checking {
	struct ir_module *m;
	const struct rt_st *st;
	const char *path;
	bool *used;		/* by index of rt_st_at() */
	uint32_t wrong;		/* tensors that are missing or differ */
};

static struct diags *
diags_of(const struct checking *x)
{
	return &x->m->ctx->diags;
}

/* The name with the variables of repeats replaced. */
static const char *
in_iteration(const struct checking *x, const char *name,
	     const struct iteration *at)
{
	const struct iteration *t;
	struct ir_placeholder p;
	struct buf b;

	buf_init(&b, &x->m->ctx->perm);
	while (*name) {
		size_t n = *name == '{' ? strcspn(name, "}") : 0;

		if (n) {
			ir_placeholder_read(name + 1, n - 1, &p);
		}
		for (t = at; n && t && !ir_placeholder_is(&p, t->var);) {
			t = t->outer;
		}
		if (n && t) {
			buf_int(&b, ir_placeholder_at(&p, t->at));
			name += n + 1;
		} else {
			buf_putc(&b, *name++);
		}
	}
	return buf_text(&b);
}

static void
missing(struct checking *x, const char *name, struct span at)
{
	const char *near = rt_st_nearest(x->st, name);

	x->wrong++;
	if (x->wrong > MOST_ERRORS) {
		return;
	}
	diag_error(diags_of(x), at, "%s has no tensor `%s`", x->path, name);
	if (near) {
		diag_note(diags_of(x), (struct span){ 0, 0 }, "the nearest "
			  "that it has is `%s`", near);
	}
}

static const char *
shape_text(const struct checking *x, const int64_t *sizes, int64_t n)
{
	struct buf b;
	int64_t i;

	buf_init(&b, &x->m->ctx->perm);
	for (i = 0; i < n; i++) {
		buf_printf(&b, "%s%" PRId64, i ? ", " : "", sizes[i]);
	}
	return buf_text(&b);
}

/* One tensor of the files, of these sizes. */
static void
check_one(struct checking *x, const char *name, const int64_t *sizes,
	  int64_t n, struct span at)
{
	const struct rt_st_tensor *t = rt_st_find(x->st, name);

	if (!t) {
		missing(x, name, at);
		return;
	}
	x->used[t - rt_st_at(x->st, 0)] = true;
	if (!rt_st_fits(t, sizes, n) && ++x->wrong <= MOST_ERRORS) {
		diag_error(diags_of(x), at, "`%s` of %s is [%s], and [%s] or "
			   "products of neighbours in it are expected", name,
			   x->path, shape_text(x, t->shape, t->ndim),
			   shape_text(x, sizes, n));
	}
}

static void
check_weight(struct checking *x, const struct ir_node *n,
	     const struct iteration *at)
{
	const struct ir_attr *a = ir_attr(x->m, n, IR_ATTR_NAME);
	const struct ir_type *t = ir_type(x->m, n->result);
	const char *name = in_iteration(x, ir_text(x->m->ctx, a->text), at);
	struct iteration part = { NULL, 0, NULL };
	int64_t sizes[IR_MAX_DIMS], stacked = 0, i;

	for (i = 0; i < t->ndims; i++) {
		sizes[i] = ir_dim_size(x->m, t->dims[i]);
	}
	if (strchr(name, '{') && t->ndims > 0) {
		part.var = ir_dim_name(x->m, t->dims[0]);
		stacked = sizes[0];
	}
	if (!stacked) {
		check_one(x, name, sizes, t->ndims, n->span);
	}
	for (; part.at < stacked && x->wrong <= MOST_ERRORS; part.at++) {
		check_one(x, in_iteration(x, name, &part), sizes + 1,
			  t->ndims - 1, n->span);
	}
}

static void
check_region(struct checking *x, region_id id, const struct iteration *outer)
{
	const struct ir_region *r = &x->m->regions.at[id];
	struct iteration at = { "", 0, outer };
	int64_t count, start, k;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);
		const struct ir_attr *var = ir_attr(x->m, n, IR_ATTR_VAR);

		if (ir_is(n->op, IRF_LOADED)) {
			check_weight(x, n, outer);
		}
		if (!n->region) {
			continue;
		}
		at.var = var ? ir_text(x->m->ctx, var->text) : "";
		count = ir_attr_int(x->m, n, IR_ATTR_COUNT, 1);
		start = ir_attr_int(x->m, n, IR_ATTR_START, 0);
		for (k = 0; k < count && x->wrong <= MOST_ERRORS; k++) {
			at.at = start + k;
			check_region(x, n->region, &at);
		}
	}
}

bool
imp_check_weights(struct ir_module *m, const struct rt_st *st,
		  const char *path, bool allow_unused)
{
	struct checking x = { .m = m, .st = st, .path = path };
	struct rt_error err;

	x.used = arena_alloc(&m->ctx->perm, rt_st_count(st) + 1);
	check_region(&x, m->funcs.at[ir_model(m)].body, NULL);
	if (x.wrong > MOST_ERRORS) {
		diag_note(diags_of(&x), (struct span){ 0, 0 }, "more tensors "
			  "are missing or have another shape");
	}
	if (x.wrong == 0 && !allow_unused &&
	    rt_st_check_used(st, path, x.used, &err) != RT_OK) {
		diag_error(diags_of(&x), (struct span){ 0, 0 }, "%s",
			   err.message);
		return false;
	}
	return x.wrong == 0;
}
