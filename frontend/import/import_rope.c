/*
 * Fields that transformers has called differently over the years: rope_theta
 * and rope_scaling became rope_parameters, torch_dtype became dtype.
 */
#include "frontend/import/import_family.h"

#include <math.h>
#include <string.h>

#define MOST_ARGS 4
#define GROUPS 2

/* The objects that the fields of one rope() may be in; NULL: no second. */
struct rope_search {
	struct imp *x;
	const struct imp_rope *r;
	const char *groups[GROUPS];
	const struct imp_field *type;
};

/* A text, and which fields it is from. */
struct rope_text {
	struct buf at;
	struct imp_pieces from;
};

/* `, factor = 8` and its kin; false after reporting. */
typedef bool rope_fn(struct rope_search *s, struct rope_text *args,
		     struct rope_text *m);

static rope_fn yarn, longrope;

/* The kinds of rotary extension that rope() can say, and its arguments. */
static const struct rope_kind {
	const char *name;
	struct {
		const char *field, *arg;
	} args[MOST_ARGS];
	rope_fn *more;
} kinds[] = {
	{ "default", { { NULL, NULL } }, NULL },
	{ "linear", { { "factor", "factor" } }, NULL },
	{ "llama3", { { "factor", "factor" }, { "low_freq_factor", "low" },
		      { "high_freq_factor", "high" },
		      { "original_max_position_embeddings", "original" } },
	  NULL },
	{ "yarn", { { "factor", "factor" } }, yarn },
	{ "longrope", { { NULL, NULL } }, longrope },
	{ "su", { { NULL, NULL } }, longrope }
};
#define NKINDS (sizeof kinds / sizeof *kinds)

/* ---- fields ---- */

/* A field by its name in either object, or NULL. */
static const struct imp_field *
scaling(struct rope_search *s, const char *name)
{
	const struct imp_field *found = NULL, *f;
	int i;

	for (i = 0; i < GROUPS && s->groups[i]; i++) {
		const char *path = arena_printf(&s->x->c->perm, "%s.%s",
						s->groups[i], name);

		imp_mark(s->x, path, true);
		f = imp_config_given(&s->x->config, path);
		found = found ? found : f;
	}
	return found;
}

/* A field in either object, or by one of two names beside them. */
static const struct imp_field *
either(struct rope_search *s, const char *name, const char *beside,
       const char *former)
{
	const struct imp_field *f = scaling(s, name);

	imp_mark(s->x, beside, true);
	f = f ? f : imp_config_given(&s->x->config, beside);
	if (former) {
		imp_mark(s->x, former, true);
		f = f ? f : imp_config_given(&s->x->config, former);
	}
	return f;
}

/* Adds the number v of a field, or of none, after `before`. */
static void
put_number(struct rope_search *s, struct rope_text *to, const char *before,
	   const struct imp_field *f, double v)
{
	size_t lo;

	buf_puts(&to->at, before);
	lo = to->at.n;
	buf_puts(&to->at, imp_number(s->x, v));
	imp_piece(s->x, &to->from, lo, &to->at, f);
}

/* Sets a value to the text. */
static void
set_text(struct imp *x, const char *name, struct rope_text *t)
{
	imp_set_text(x, name, buf_text(&t->at))->pieces = t->from;
}

/* The number of a field, or another one if it is not given or none. */
static double
number(struct rope_search *s, const struct imp_field *f, double otherwise)
{
	return f && imp_is_number(s->x, f, -1) ? f->num : otherwise;
}

static bool
lacks(struct rope_search *s, const char *field)
{
	diag_error(&s->x->c->diags, s->type->span, "rotary extension %s has "
		   "no `%s`", s->type->text, field);
	return false;
}

static const struct rope_kind *
find_kind(struct rope_search *s)
{
	const struct imp_field *old = scaling(s, "type");
	struct buf legal;
	size_t i;

	s->type = scaling(s, "rope_type");
	s->type = s->type ? s->type : old;
	if (!s->type) {
		return &kinds[0];
	}
	buf_init(&legal, &s->x->c->perm);
	for (i = 0; i < NKINDS; i++) {
		if (s->type->kind == IMP_TEXT &&
		    strcmp(s->type->text, kinds[i].name) == 0) {
			return &kinds[i];
		}
		buf_printf(&legal, "%s%s", i ? ", " : "", kinds[i].name);
	}
	diag_error(&s->x->c->diags, s->type->span, "`%s` is `%.40s`, a rotary "
		   "extension that rope() cannot say: it has %s",
		   s->type->path, s->type->text ? s->type->text : "?",
		   buf_text(&legal));
	return NULL;
}

static void
mark_objects(struct rope_search *s)
{
	int i;

	for (i = 0; i < GROUPS && s->groups[i]; i++) {
		struct imp_field *f = imp_config_find(&s->x->config,
						      s->groups[i]);

		if (f) {
			f->read = f->kept = true;
		}
		if (f && f->kind != IMP_NULL && f->kind != IMP_OBJECT) {
			diag_error(&s->x->c->diags, f->span, "`%s` is expected "
				   "to be an object or null", f->path);
		}
	}
}

/* ---- YaRN ---- */

/* Adds 0.1 log(factor) mscale + 1; `of` is the field of mscale, or NULL. */
static void
put_yarn_m(struct rope_search *s, struct rope_text *to, double mscale,
	   const struct imp_field *of)
{
	const struct imp_field *factor = scaling(s, "factor");

	buf_puts(&to->at, "(0.1 * ");
	if (mscale != 1) {
		put_number(s, to, "", of, mscale);
		buf_puts(&to->at, " * ");
	}
	put_number(s, to, "log(", factor, number(s, factor, 1));
	buf_puts(&to->at, ") + 1)");
}

/*
 * Cosines and sines are multiplied by attention_factor, else by the quotient of
 * the two mscales, else by the mscale of 1.  DeepSeek's attention is multiplied
 * by the square of that of mscale_all_dim, too: `yarn_all`.
 */
static void
yarn_factors(struct rope_search *s, double factor, struct rope_text *m)
{
	const struct imp_field *given = scaling(s, "attention_factor");
	const struct imp_field *mscale = scaling(s, "mscale");
	const struct imp_field *of_all = scaling(s, "mscale_all_dim");
	double one = number(s, mscale, 0), all = number(s, of_all, 0);

	if (all != 0 && factor > 1) {
		struct rope_text t = { 0 };

		buf_init(&t.at, &s->x->c->perm);
		put_yarn_m(s, &t, all, of_all);
		set_text(s->x, "yarn_all", &t);
	}
	if (given) {
		put_number(s, m, "", given, number(s, given, 1));
	} else if (one != 0 && all != 0 && one != all) {
		put_yarn_m(s, m, one, mscale);
		buf_puts(&m->at, " / ");
		put_yarn_m(s, m, all, of_all);
	} else if ((one == 0 || all == 0) && factor > 1) {
		put_yarn_m(s, m, 1, NULL);
	}
}

static bool
yarn(struct rope_search *s, struct rope_text *args, struct rope_text *m)
{
	const struct imp_field *f = scaling(s, "truncate");
	const struct imp_field *fast = scaling(s, "beta_fast");
	const struct imp_field *slow = scaling(s, "beta_slow");
	const struct imp_field *trained = scaling(s,
				"original_max_position_embeddings");
	double factor = number(s, scaling(s, "factor"), 1);
	const struct imp_value *seq = imp_value(s->x,
						"max_position_embeddings");

	if (!trained && !seq) {
		return lacks(s, "original_max_position_embeddings");
	}
	put_number(s, args, ", fast = ", fast, number(s, fast, 32));
	put_number(s, args, ", slow = ", slow, number(s, slow, 1));
	put_number(s, args, ", original = ", trained ? trained : seq->field,
		   number(s, trained, seq ? seq->num : 1));
	buf_puts(&args->at, f && f->kind == IMP_BOOL && !f->num
		 ? ", untruncated" : "");
	yarn_factors(s, factor, m);
	return true;
}

/* ---- LongRoPE ---- */

/* The length that the model has: by --dim, else as the file has it. */
static double
sequence(const struct imp *x, double otherwise)
{
	uint32_t i;

	for (i = 0; i < x->rq->ndims; i++) {
		if (strcmp(x->rq->dims[i].name, "seq") == 0) {
			return (double)x->rq->dims[i].size;
		}
	}
	return otherwise;
}

static bool
stretch(struct rope_search *s, const char *name, struct rope_text *args)
{
	const struct imp_field *f = scaling(s, name);
	uint32_t i;
	size_t lo;

	if (!f) {
		return lacks(s, name);
	}
	if (f->kind != IMP_LIST || f->inside == 0) {
		return imp_wrong_kind(s->x, f, "a list of numbers");
	}
	if (!args) {
		return true;
	}
	buf_puts(&args->at, ", stretch = ");
	lo = args->at.n;
	for (i = 1; i <= f->inside; i++) {
		if (!imp_is_number(s->x, &f[i], -1)) {
			return false;
		}
		put_number(s, args, i > 1 ? ", " : "(", &f[i], f[i].num);
	}
	buf_putc(&args->at, ')');
	imp_piece(s->x, &args->from, lo, &args->at, f);
	return true;
}

/*
 * Sequences that are longer than those of training have other factors than
 * shorter ones; a model here has one length.
 */
static bool
longrope(struct rope_search *s, struct rope_text *args, struct rope_text *m)
{
	const struct imp_field *trained = either(s,
		"original_max_position_embeddings",
		"original_max_position_embeddings", NULL);
	const struct imp_field *given = scaling(s, "attention_factor");
	const struct imp_field *by = scaling(s, "factor");
	const struct imp_value *seq = imp_value(s->x,
						"max_position_embeddings");
	double original, factor;
	bool is_long;

	if (!trained || !seq) {
		return lacks(s, "original_max_position_embeddings");
	}
	if (!imp_is_number(s->x, trained, 2)) {
		return false;
	}
	original = trained->num;
	is_long = sequence(s->x, seq->num) > original;
	factor = number(s, by, seq->num / original);
	if (given) {
		put_number(s, m, "", given, number(s, given, 1));
	} else if (factor > 1) {
		put_number(s, m, "sqrt(1 + log(", by, factor);
		put_number(s, m, ") / log(", trained, original);
		buf_puts(&m->at, "))");
	}
	return stretch(s, is_long ? "short_factor" : "long_factor", NULL) &&
	       stretch(s, is_long ? "long_factor" : "short_factor", args);
}

/* ---- all of it ---- */

static bool
extension(struct rope_search *s, const struct rope_kind *k,
	  struct rope_text *args, struct rope_text *m)
{
	int i;

	for (i = 0; i < MOST_ARGS && k->args[i].field; i++) {
		const struct imp_field *f = scaling(s, k->args[i].field);

		if (!f) {
			return lacks(s, k->args[i].field);
		}
		if (!imp_is_number(s->x, f, -1)) {
			return false;
		}
		put_number(s, args, arena_printf(&s->x->c->perm, ", %s = ",
			   k->args[i].arg), f, f->num);
	}
	return !k->more || k->more(s, args, m);
}

void
imp_rope(struct imp *x, const struct imp_rope *r)
{
	const char *beside = r->theta ? r->theta : "rope_theta";
	struct rope_search s = { .x = x, .r = r };
	const struct imp_field *theta, *part;
	const struct rope_kind *k;
	struct rope_text args = { 0 }, m = { 0 };

	/* a kind of its own has a theta of its own, and no scaling but there */
	s.groups[0] = r->kind ? arena_printf(&x->c->perm,
				"rope_parameters.%s", r->kind)
			      : "rope_parameters";
	s.groups[1] = r->theta ? NULL : "rope_scaling";
	buf_init(&args.at, &x->c->perm);
	buf_init(&m.at, &x->c->perm);
	theta = either(&s, "rope_theta", beside,
		       r->kind ? NULL : "rotary_emb_base");
	part = either(&s, "partial_rotary_factor", "partial_rotary_factor",
		      "rotary_pct");
	mark_objects(&s);
	put_number(&s, &args, ", theta = ", theta, number(&s, theta, 10000));
	k = find_kind(&s);
	if (k) {
		extension(&s, k, &args, &m);
	}
	set_text(x, r->value, &args);
	set_text(x, arena_printf(&x->c->perm, "%s_m", r->value), &m);
	imp_set_number(x, "rotary", number(&s, part, r->part))->from =
		part ? imp_config_find(&x->config, part->path) : NULL;
	if (theta) {
		imp_note(x, arena_printf(&x->c->perm, "theta is %s%s",
			theta->path, k && k != kinds
			? ", with its scaling beside it" : ""));
	}
}

/* ---- dtypes ---- */

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
