/*
 * Fields that transformers has called differently over the years: rope_theta
 * and rope_scaling became rope_parameters, torch_dtype became dtype.
 */
#include "frontend/import/import_family.h"

#include <string.h>

/* The kinds of rotary extension that rope() can say, and its arguments. */
#define MOST_ARGS 4

static const struct rope_kind {
	const char *name;
	struct {
		const char *field, *arg;
	} args[MOST_ARGS];
} kinds[] = {
	{ "default", { { NULL, NULL } } },
	{ "linear", { { "factor", "factor" } } },
	{ "llama3", { { "factor", "factor" }, { "low_freq_factor", "low" },
		      { "high_freq_factor", "high" },
		      { "original_max_position_embeddings", "original" } } }
};
#define NKINDS (sizeof kinds / sizeof *kinds)

static const char *const groups[] = { "rope_parameters", "rope_scaling" };

/* A field by its name in either object; the last is NULL if not given. */
static struct imp_field *
scaling(struct imp *x, const char *name)
{
	struct imp_field *found = NULL, *f;
	int i;

	for (i = 0; i < 2; i++) {
		const char *path = arena_printf(&x->c->perm, "%s.%s",
						groups[i], name);

		imp_mark(x, path, true);
		f = imp_config_given(&x->config, path);
		found = found ? found : f;
	}
	return found;
}

static const struct rope_kind *
find_kind(struct imp *x)
{
	const struct imp_field *type = scaling(x, "rope_type");
	const struct imp_field *old = scaling(x, "type");
	struct buf legal;
	size_t i;

	type = type ? type : old;
	if (!type) {
		return &kinds[0];
	}
	buf_init(&legal, &x->c->perm);
	for (i = 0; i < NKINDS; i++) {
		if (type->kind == IMP_TEXT &&
		    strcmp(type->text, kinds[i].name) == 0) {
			return &kinds[i];
		}
		buf_printf(&legal, "%s%s", i ? ", " : "", kinds[i].name);
	}
	diag_error(&x->c->diags, type->span, "`%s` is `%.40s`, a rotary "
		   "extension that rope() cannot say: it has %s", type->path,
		   type->text ? type->text : "?", buf_text(&legal));
	return NULL;
}

/* The scalar that both, or one, may give; reports what is no number. */
static double
number(struct imp *x, const struct imp_field *f, double otherwise)
{
	return f && imp_is_number(x, f, -1) ? f->num : otherwise;
}

static void
mark_objects(struct imp *x)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct imp_field *f = imp_config_find(&x->config, groups[i]);

		if (f) {
			f->read = f->kept = true;
		}
		if (f && f->kind != IMP_NULL && f->kind != IMP_OBJECT) {
			diag_error(&x->c->diags, f->span, "`%s` is expected to "
				   "be an object or null", f->path);
		}
	}
}

/* `, factor = 8` and its kin; NULL after reporting. */
static const char *
extension(struct imp *x, const struct rope_kind *k)
{
	struct buf b;
	int i;

	buf_init(&b, &x->c->perm);
	for (i = 0; i < MOST_ARGS && k->args[i].field; i++) {
		const struct imp_field *f = scaling(x, k->args[i].field);

		if (!f) {
			diag_error(&x->c->diags, x->config.start, "rotary "
				   "extension %s has no `%s`", k->name,
				   k->args[i].field);
			return NULL;
		}
		if (!imp_is_number(x, f, -1)) {
			return NULL;
		}
		buf_printf(&b, ", %s = %s", k->args[i].arg,
			   imp_number(x, f->num));
	}
	return buf_text(&b);
}

/* A field in either object, or by one of two names beside them. */
static const struct imp_field *
either(struct imp *x, const char *name, const char *former)
{
	const struct imp_field *f = scaling(x, name);

	imp_mark(x, name, true);
	imp_mark(x, former, true);
	f = f ? f : imp_config_given(&x->config, name);
	return f ? f : imp_config_given(&x->config, former);
}

void
imp_rope(struct imp *x, const char *part_if_absent)
{
	const struct imp_field *theta, *part;
	const struct rope_kind *k;
	const char *more;
	double otherwise = 1;

	theta = either(x, "rope_theta", "rotary_emb_base");
	part = either(x, "partial_rotary_factor", "rotary_pct");
	mark_objects(x);
	num_parse_double(part_if_absent, strlen(part_if_absent), &otherwise);
	k = find_kind(x);
	more = k ? extension(x, k) : NULL;
	imp_set_text(x, "rope", arena_printf(&x->c->perm, ", theta = %s%s",
		imp_number(x, number(x, theta, 10000)), more ? more : ""));
	imp_set_number(x, "rotary", number(x, part, otherwise));
	if (theta) {
		VEC_PUSH(&x->c->perm, &x->notes,
			 arena_printf(&x->c->perm, "theta is %s%s",
				      theta->path, more && *more ?
				      ", with its scaling beside it" : ""));
	}
}

static const struct {
	const char *torch, *ours;
} dtypes[] = {
	{ "float32", "f32" }, { "bfloat16", "bf16" }, { "float16", "f16" }
};

void
imp_dtype(struct imp *x)
{
	const struct imp_field *now, *old, *f;
	size_t i, n = sizeof dtypes / sizeof *dtypes;

	imp_mark(x, "dtype", true);
	imp_mark(x, "torch_dtype", true);
	now = imp_config_given(&x->config, "dtype");
	old = imp_config_given(&x->config, "torch_dtype");
	f = now ? now : old;
	if (!f) {
		imp_set_text(x, "dtype", "f32")->otherwise =
			"torch_dtype is not given";
		return;
	}
	imp_set_text(x, "dtype", "f32")->otherwise = f->path;
	for (i = 0; i < n; i++) {
		if (f->kind == IMP_TEXT &&
		    strcmp(f->text, dtypes[i].torch) == 0) {
			imp_set_text(x, "dtype", dtypes[i].ours)->otherwise =
				f->path;
			return;
		}
	}
	diag_error(&x->c->diags, f->span, "`%s` is float32, bfloat16 or "
		   "float16, found `%.40s`", f->path,
		   f->text ? f->text : "no text");
}
