/*
 * The model of a config.json: which family it is of, what its file says, and
 * that every field was read.
 */
#include "frontend/import/import_family.h"

#include <string.h>

/* ---- which family ---- */

/* The class of a family's models: the word of its first line. */
static const char *
class_of(struct ir_ctx *c, const struct imp_family_file *f)
{
	static const char first[] = "% # class ";
	const char *p = f->lines[0] + sizeof first - 1;

	if (strncmp(f->lines[0], first, sizeof first - 1) != 0) {
		return NULL;	/* a part */
	}
	return arena_strndup(&c->perm, p, strcspn(p, " \n"));
}

const char *
imp_families(struct arena *a)
{
	struct buf b;
	size_t i;

	buf_init(&b, a);
	for (i = 0; i < imp_nfamily_files; i++) {
		if (!strchr(imp_family_files[i].name, '.')) {
			buf_printf(&b, "%s%s", b.n ? ", " : "",
				   imp_family_files[i].name);
		}
	}
	return buf_text(&b);
}

static bool
unknown_family(struct imp *x, const struct imp_field *f)
{
	struct diag_near near;
	size_t i;

	diag_near_init(&near, f->text);
	for (i = 0; i < imp_nfamily_files; i++) {
		if (!strchr(imp_family_files[i].name, '.')) {
			diag_near_try(&near, imp_family_files[i].name);
		}
	}
	diag_error(&x->c->diags, f->span, "no family is called `%.60s`%s: "
		   "there are %s", f->text,
		   diag_near_text(&near, &x->c->perm),
		   imp_families(&x->c->perm));
	return false;
}

/* Whether `architectures` has the class that the family describes. */
static bool
has_class(struct imp *x, const char *class)
{
	const struct imp_field *f = imp_config_given(&x->config,
						     "architectures");
	uint32_t i;

	imp_mark(x, "architectures", true);
	if (f && f->kind != IMP_LIST) {
		return imp_wrong_kind(x, f, "a list");
	}
	for (i = 1; f && i <= f->inside; i++) {
		if (f[i].kind == IMP_TEXT && strcmp(f[i].text, class) == 0) {
			return true;
		}
	}
	if (f) {
		diag_error(&x->c->diags, f->inside ? f[1].span : f->span,
			   "`architectures` has no %s, which is what can be "
			   "imported of the family %s", class, x->family);
	}
	return !f;
}

static bool
find_family(struct imp *x)
{
	struct imp_field *f = imp_config_given(&x->config, "model_type");
	const struct imp_family_file *file;
	const char *class;

	x->family = "of config.json";
	if (!f) {
		imp_missing(x, "model_type");
		return false;
	}
	if (f->kind != IMP_TEXT) {
		return imp_wrong_kind(x, f, "a text");
	}
	imp_mark(x, "model_type", true);
	file = imp_find_file(f->text);
	class = file ? class_of(x->c, file) : NULL;
	if (!class) {
		return unknown_family(x, f);
	}
	x->family = file->name;
	return has_class(x, class);
}

/* ---- what no line has read ---- */

static bool
all_known(struct imp *x)
{
	bool ok = true;
	uint32_t i, j;

	for (i = 0; i < x->config.at.n; i++) {
		const struct imp_field *f = &x->config.at.at[i];
		struct diag_near near;

		if (f->read || f->inside) {
			continue;
		}
		diag_near_init(&near, f->path);
		for (j = 0; j < x->known.n; j++) {
			diag_near_try(&near, x->known.at[j]);
		}
		diag_error(&x->c->diags, f->span, "`%.80s` is not known of "
			   "the family %s, and may change what the model "
			   "computes%s", f->path, x->family,
			   diag_near_text(&near, &x->c->perm));
		ok = false;
	}
	return ok;
}

static bool
dims_known(struct imp *x)
{
	bool ok = true;
	uint32_t i, j;

	for (i = 0; i < x->rq->ndims; i++) {
		const char *name = x->rq->dims[i].name;
		struct diag_near near;

		diag_near_init(&near, name);
		for (j = 0; j < x->dims.n; j++) {
			if (strcmp(x->dims.at[j], name) == 0) {
				break;
			}
			diag_near_try(&near, x->dims.at[j]);
		}
		if (j == x->dims.n) {
			diag_error(&x->c->diags, x->rq->origins.at[i].span,
				   "the model has no dim `%s`%s", name,
				   diag_near_text(&near, &x->c->perm));
			ok = false;
		}
	}
	return ok;
}

/* ---- all of it ---- */

static const char train[] =
	"\n# config.json says nothing about training: choose these.\n"
	"train {\n"
	"  batch = 8;\n"
	"  optimizer = adamw(lr = 1e-5, betas = (0.9, 0.95), "
	"weight_decay = 0.1);\n"
	"  clip = 1.0;\n"
	"}\n";

/* `body`: where the text that was made of the family begins. */
static void
list_origins(const struct imp *x, struct imp_request *rq, size_t body)
{
	uint32_t i;

	for (i = 0; i < x->pieces.at.n; i++) {
		struct imp_piece p = x->pieces.at.at[i];

		p.lo += body;
		p.hi += body;
		VEC_PUSH(&x->c->perm, &rq->pieces.at, p);
	}

	for (i = 0; i < x->values.n; i++) {
		const struct imp_value *v = &x->values.at[i];
		const struct imp_field *f = imp_field_of(v);

		if (v->dim && f &&
		    !imp_origin(rq, v->dim, strlen(v->dim))) {
			struct imp_origin o = { v->dim, f->path, f->span,
						!v->field };

			VEC_PUSH(&x->c->perm, &rq->origins, o);
		}
	}
}

bool
imp_model(struct ir_ctx *c, struct imp_request *rq, struct buf *out)
{
	struct imp x = { .c = c, .rq = rq };
	uint32_t errors = c->diags.errors, i;
	size_t body;

	buf_init(&x.body, &c->perm);
	if (!imp_config_read(c, rq->file, &x.config) || !find_family(&x)) {
		return false;
	}
	imp_run_file(&x, x.family, 0);
	if (c->diags.errors != errors || !all_known(&x) || !dims_known(&x)) {
		return false;
	}
	buf_printf(out, "# Imported from a config.json of the family %s, whose "
		   "fields comments name.\n", x.family);
	for (i = 0; i < x.notes.n; i++) {
		buf_printf(out, "# %s\n", x.notes.at[i]);
	}
	buf_printf(out, "model %s {\n", rq->name ? rq->name : x.family);
	body = out->n;
	buf_add(out, x.body.at, x.body.n);
	buf_puts(out, "}\n");
	buf_puts(out, train);
	imp_export(&x, out);
	list_origins(&x, rq, body);
	return true;
}
