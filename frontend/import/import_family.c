/*
 * Runs the file of a family: lines that begin with `%` say what the fields of
 * config.json are and which lines count, all others are the text of the
 * model, where $name stands for a value.  docs/import.md lists the lines.  A
 * mistake in such a file is a bug of llmc, so it dies.
 */
#include "frontend/import/import_family.h"

#include <math.h>
#include <string.h>

#include "runtime/rt.h"

#define MOST_USES 8		/* % use in files that are used */
#define COMMENT_COLUMN 34

/* ---- words of a line ---- */

static const char *
next_word(struct imp *x, const char **p)
{
	size_t n;
	const char *w;

	*p += strspn(*p, " ");
	n = **p == '"' ? strcspn(*p + 1, "\"") + 2 : strcspn(*p, " ");
	w = n ? arena_strndup(&x->c->perm, *p, n) : NULL;
	*p += n;
	return w;
}

static const char *
want_word(struct imp *x, const char **p)
{
	const char *w = next_word(x, p);

	if (!w) {
		die("family %s: a word is missing", x->family);
	}
	return w;
}

/* What follows the first ":" between blanks; the line is cut before it. */
static const char *
cut_remark(struct imp *x, const char **p)
{
	const char *colon = strstr(*p, " : ");
	const char *remark = colon ? colon + 3 : NULL;

	if (colon) {
		*p = arena_strndup(&x->c->perm, *p, (size_t)(colon - *p));
	}
	return remark;
}

static bool
is_number_word(const char *w)
{
	return (*w >= '0' && *w <= '9') || *w == '-' || *w == '.';
}

/* A number, a text in quotes, true, false, or a value by name. */
static struct imp_value
operand(struct imp *x, const char *w)
{
	struct imp_value v = { .name = w }, *known = imp_value(x, w);
	size_t n = strlen(w);
	struct buf text;

	if (known) {
		return *known;
	}
	if (*w == '"') {
		buf_init(&text, &x->c->perm);
		imp_expand(x, arena_strndup(&x->c->perm, w + 1, n - 2), &text,
			   &v.pieces);
		v.is_text = true;
		v.text = buf_text(&text);
	} else if (strcmp(w, "true") == 0 || strcmp(w, "false") == 0) {
		v.num = *w == 't';
	} else if (!num_parse_double(w, n, &v.num)) {
		die("family %s: no value is called %s", x->family, w);
	}
	return v;
}

/* `a`, or `a / b * c` from left to right; false if a quotient is not whole
 * where a whole one is wanted. */
static bool
evaluate(struct imp *x, const char *p, bool whole, struct imp_value *out)
{
	const char *op;
	struct imp_value v;
	double by;

	*out = operand(x, want_word(x, &p));
	out->from = imp_field_of(out);
	while ((op = next_word(x, &p))) {
		v = operand(x, want_word(x, &p));
		by = v.num;
		out->from = imp_field_of(&v) ? imp_field_of(&v) : out->from;
		if (*op == '*') {
			out->num *= by;
		} else if (*op == '/') {
			if (whole && (by == 0 || fmod(out->num, by) != 0)) {
				return false;
			}
			out->num /= by;
		} else if (*op == '+') {
			out->num += by;
		} else {
			out->num -= by;
		}
	}
	return true;
}

/* ---- fields ---- */

/* Where the file has the last number of `a / b * c`, or where it begins. */
static struct span
place_of(struct imp *x, const char *p)
{
	struct span at = x->config.start;
	const char *w;

	while ((w = next_word(x, &p))) {
		const struct imp_value *v = imp_value(x, w);

		at = v && v->field ? v->field->span : at;
	}
	return at;
}

/* The field of a name, or of another that it had: "name|former". */
static struct imp_field *
find_either(struct imp *x, const char **names)
{
	size_t n = strcspn(*names, "|");
	const char *former = (*names)[n] ? *names + n + 1 : NULL;
	struct imp_field *f;

	*names = arena_strndup(&x->c->perm, *names, n);
	imp_mark(x, *names, true);
	f = imp_config_given(&x->config, *names);
	if (former) {
		imp_mark(x, former, true);
		f = f ? f : imp_config_given(&x->config, former);
	}
	return f;
}

/*
 * The value of a field, by the line's default if it is not given.  A number
 * is whole and at least `least`, or any if that is -1.
 */
static void
field(struct imp *x, const char *p, enum imp_kind kind, int least)
{
	const char *name = want_word(x, &p), *equals = next_word(x, &p);
	struct imp_field *f = find_either(x, &name);
	struct imp_value v = { .name = name, .field = f };

	p += strspn(p, " ");
	v.num = 1;		/* after an error */
	if (f && kind == IMP_NUMBER) {
		v.num = imp_is_number(x, f, least) ? f->num : 1;
	} else if (f && f->kind != kind) {
		imp_wrong_kind(x, f, kind == IMP_BOOL ? "true or false"
						  : "a text");
	} else if (f) {
		v.num = f->num;
		v.is_text = kind == IMP_TEXT;
		v.text = f->text;
	} else if (!equals) {
		imp_missing(x, name);
	} else {
		if (!evaluate(x, p, least >= 0, &v)) {
			diag_error(&x->c->diags, place_of(x, p), "`%s` is not "
				   "given, and %s is not whole", name, p);
		}
		v.name = name;
		v.field = NULL;
		v.dim = NULL;
		v.otherwise = p;
	}
	imp_set(x, &v);
}

static void
do_size(struct imp *x, const char *p)
{
	field(x, p, IMP_NUMBER, 1);
}

static void
do_count(struct imp *x, const char *p)
{
	field(x, p, IMP_NUMBER, 0);
}

static void
do_number(struct imp *x, const char *p)
{
	field(x, p, IMP_NUMBER, -1);
}

static void
do_flag(struct imp *x, const char *p)
{
	field(x, p, IMP_BOOL, -1);
}

static void
do_word(struct imp *x, const char *p)
{
	field(x, p, IMP_TEXT, -1);
}

/* Whether a field is one of the words of a line. */
static bool
is_one_of(struct imp *x, const struct imp_field *f, const char *p)
{
	const char *w;
	double v;

	while ((w = next_word(x, &p))) {
		if (f->kind == IMP_NULL || f->kind == IMP_BOOL ||
		    f->kind == IMP_TEXT) {
			if (strcmp(f->kind == IMP_NULL ? "null" : f->text,
				   w) == 0) {
				return true;
			}
		} else if (f->kind == IMP_LIST && f->inside == 0 &&
			   strcmp(w, "[]") == 0) {
			return true;
		} else if (f->kind == IMP_NUMBER && is_number_word(w) &&
			   num_parse_double(w, strlen(w), &v) && v == f->num) {
			return true;
		}
	}
	return false;
}

static void
refused(struct imp *x, const struct imp_field *f, const char *legal,
	const char *why)
{
	const char *is = f->text ? arena_printf(&x->c->perm, "%s%.60s%s",
			f->kind == IMP_TEXT ? "\"" : "", f->text,
			f->kind == IMP_TEXT ? "\"" : "") : imp_kind_text(f);

	legal += strspn(legal, " ");
	diag_error(&x->c->diags, f->span, "`%s` is %s, and only %s can be "
		   "imported of the family %s%s%s", f->path, is, legal,
		   x->family, why ? ": " : "", why ? why : "");
}

/* % only NAME VALUE.. : why no other */
static void
do_only(struct imp *x, const char *p)
{
	const char *why = cut_remark(x, &p);
	const char *name = want_word(x, &p);
	const struct imp_field *f = imp_config_find(&x->config, name);

	imp_mark(x, name, true);
	if (f && !is_one_of(x, f, p)) {
		refused(x, f, p, why);
	}
}

/* % each NAME VALUE.. : the same of all elements of a list */
static void
do_each(struct imp *x, const char *p)
{
	const char *why = cut_remark(x, &p);
	const char *name = want_word(x, &p);
	const struct imp_field *f = imp_config_given(&x->config, name);
	uint32_t i;

	imp_mark(x, name, true);
	if (f && f->kind != IMP_LIST) {
		imp_wrong_kind(x, f, "a list");
		return;
	}
	for (i = 1; f && i <= f->inside; i++) {
		if (!is_one_of(x, &f[i], p)) {
			refused(x, &f[i], p, why);
			return;
		}
	}
}

/* A field whose other values are a comment of the model; and a warning, if
 * training without them is not what the library does. */
static void
note_field(struct imp *x, const char *p, bool warns)
{
	const char *why = cut_remark(x, &p);
	const char *name = want_word(x, &p);
	const struct imp_field *f = imp_config_find(&x->config, name);

	imp_mark(x, name, f && f->inside == 0);
	if (f && !is_one_of(x, f, p)) {
		VEC_PUSH(&x->c->perm, &x->notes,
			 arena_printf(&x->c->perm, "%s%s%.40s: %s", name,
				      f->text ? " is " : "",
				      f->text ? f->text : "", why));
		if (warns) {
			diag_warn(&x->c->diags, WARN_LEFT_OUT, f->span,
				  "`%s` is %.60s: %s", f->path, f->text
				  ? f->text : imp_kind_text(f), why);
		}
	}
}

/* % note NAME VALUE.. : what another value means, as a comment */
static void
do_note(struct imp *x, const char *p)
{
	note_field(x, p, false);
}

/* % warn NAME VALUE.. : the same, and it is a warning */
static void
do_warn(struct imp *x, const char *p)
{
	note_field(x, p, true);
}

/* % skip NAME..: these change no number */
static void
do_skip(struct imp *x, const char *p)
{
	const char *name;

	while ((name = next_word(x, &p))) {
		const struct imp_field *f = imp_config_find(&x->config, name);

		imp_mark(x, name, f && f->kind != IMP_OBJECT);
	}
}

/* % refuse NAME : what is missing */
static void
do_refuse(struct imp *x, const char *p)
{
	const char *why = cut_remark(x, &p);
	const char *name = want_word(x, &p);
	const struct imp_field *f = imp_config_find(&x->config, name);

	diag_error(&x->c->diags, f ? f->span : x->config.start,
		   "the family %s cannot be imported yet: %s", x->family,
		   why);
}

/* ---- what becomes text ---- */

/* The default of a size over the dims of the model, or NULL. */
static const char *
over_dims(struct imp *x, const char *p)
{
	const char *w;
	struct buf b;

	buf_init(&b, &x->c->perm);
	while ((w = next_word(x, &p))) {
		const struct imp_value *v = imp_value(x, w);

		if (v && !v->dim) {
			return NULL;
		}
		buf_printf(&b, "%s%s", b.n ? " " : "", v ? v->dim : w);
	}
	return buf_text(&b);
}

static const struct opt_dim *
given_dim(const struct imp *x, const char *name)
{
	uint32_t i;

	for (i = 0; i < x->rq->ndims; i++) {
		if (strcmp(x->rq->dims[i].name, name) == 0) {
			return &x->rq->dims[i];
		}
	}
	return NULL;
}

static void
put_dim(struct imp *x, const char *dim, const char *is, const char *remark)
{
	size_t at = x->body.n, n;

	buf_printf(&x->body, "  dim %s = %s;", dim, is);
	n = x->body.n - at;
	buf_printf(&x->body, "%*s# %s\n", n < COMMENT_COLUMN
		   ? (int)(COMMENT_COLUMN - n) : 1, "", remark);
}

/* % dim NAME = VALUE : remark */
static void
do_dim(struct imp *x, const char *p)
{
	const char *remark = cut_remark(x, &p), *is;
	const char *dim = want_word(x, &p);
	const struct opt_dim *set = given_dim(x, dim);
	struct imp_value *v, sum = { .name = NULL };

	want_word(x, &p);	/* = */
	p += strspn(p, " ");
	v = imp_value(x, p);
	VEC_PUSH(&x->c->perm, &x->dims, dim);
	is = over_dims(x, v && !v->field && v->otherwise ? v->otherwise : p);
	if (!is || (v && v->field)) {
		evaluate(x, p, true, &sum);
		is = imp_number(x, sum.num);
	}
	if (set) {
		remark = arena_printf(&x->c->perm, "--dim; config.json has "
				      "%s", is);
		is = imp_number(x, (double)set->size);
	} else if (!remark && v) {
		remark = arena_printf(&x->c->perm, v->field ? "%s"
				      : "%s is not given", p);
	}
	if (v) {
		v->dim = dim;
	} else if (!set && sum.from) {
		sum.name = arena_printf(&x->c->perm, "dim %s", dim);
		sum.dim = dim;
		imp_set(x, &sum);
	}
	put_dim(x, dim, is, remark ? remark : p);
}

/* % let NAME = EXPR */
static void
do_let(struct imp *x, const char *p)
{
	const char *name = want_word(x, &p);
	struct imp_value v;

	want_word(x, &p);	/* = */
	evaluate(x, p, false, &v);
	v.name = name;
	v.dim = NULL;
	v.field = NULL;
	imp_set(x, &v);
}

static const struct {
	const char *name, *op;
} activations[] = {
	{ "silu", "silu" }, { "swish", "silu" }, { "gelu", "gelu_erf" },
	{ "gelu_new", "gelu" }, { "gelu_pytorch_tanh", "gelu" },
	{ "gelu_fast", "gelu" }, { "relu", "relu" }, { "relu2", "relu2" }
};

/* % act NAME = "silu": sets `act` to the op of that activation */
static void
do_act(struct imp *x, const char *p)
{
	const char *name = arena_strndup(&x->c->perm, p, strcspn(p, " "));
	const size_t n = sizeof activations / sizeof *activations;
	const struct imp_value *v;
	struct diag_near near;
	size_t i;

	field(x, p, IMP_TEXT, -1);
	v = imp_value(x, name);
	diag_near_init(&near, v->text ? v->text : "");
	for (i = 0; v->text && i < n; i++) {
		if (strcmp(activations[i].name, v->text) == 0) {
			imp_set_text(x, "act", activations[i].op);
			return;
		}
		diag_near_try(&near, activations[i].name);
	}
	imp_set_text(x, "act", "silu");
	if (v->text) {
		diag_error(&x->c->diags, v->field ? v->field->span
			   : x->config.start, "`%s` is an activation that no "
			   "op computes%s", v->text,
			   diag_near_text(&near, &x->c->perm));
	}
}

/* % rope [SHARE], or % rope VALUE KIND THETA */
static void
do_rope(struct imp *x, const char *p)
{
	struct imp_rope r = { .value = "rope", .part = 1 };
	const char *w = next_word(x, &p);

	if (w && is_number_word(w)) {
		num_parse_double(w, strlen(w), &r.part);
	} else if (w) {
		r.value = w;
		r.kind = want_word(x, &p);
		r.theta = next_word(x, &p);
	}
	imp_rope(x, &r);
}

/* % kinds FIELD kind=call .. : calls that take turns without it */
static void
do_kinds(struct imp *x, const char *p)
{
	const char *turns = cut_remark(x, &p);
	const char *field = want_word(x, &p);

	imp_kinds(x, field, p + strspn(p, " "), turns);
}

static void
do_stack(struct imp *x, const char *p)
{
	imp_stack(x, p);
}

static void
do_dtype(struct imp *x, const char *p)
{
	const struct imp_value *v;

	(void)p;
	imp_dtype(x);
	v = imp_value(x, "dtype");
	buf_printf(&x->body, "  dtype %s;%*s# %s\n", v->text,
		   (int)(COMMENT_COLUMN - 9 - strlen(v->text)), "",
		   v->otherwise);
}

/* % prefix TEXT: sets `p`, to nothing if the weights lack it */
static void
do_prefix(struct imp *x, const char *p)
{
	const struct rt_st *st = x->rq->weights;
	const char *prefix = want_word(x, &p);
	bool found = !st || rt_st_count(st) == 0;
	size_t i;

	for (i = 0; st && !found && i < rt_st_count(st); i++) {
		found = strncmp(rt_st_at(st, i)->name, prefix,
				strlen(prefix)) == 0;
	}
	imp_set_text(x, "p", found ? prefix : "");
}

/* ---- lines ---- */

static bool
holds(struct imp *x, const char *p)
{
	const char *a = want_word(x, &p), *op = next_word(x, &p);
	bool not = *a == '!';
	struct imp_value v, w;

	if (strcmp(a, "given") == 0) {
		return imp_config_given(&x->config, op) != NULL;
	}
	v = operand(x, a + not);
	if (!op) {
		return not != (v.is_text ? *v.text != '\0' : v.num != 0);
	}
	w = operand(x, want_word(x, &p));
	if (v.is_text != w.is_text) {
		return *op == '!';
	}
	if (v.is_text) {
		return (strcmp(v.text, w.text) == 0) == (*op == '=');
	}
	return *op == '=' ? v.num == w.num : *op == '!' ? v.num != w.num :
	       *op == '<' ? v.num < w.num : v.num > w.num;
}

static bool
counts(const struct imp *x)
{
	uint32_t i;

	for (i = 0; i < x->depth; i++) {
		if (!x->on[i]) {
			return false;
		}
	}
	return true;
}

/* Whether the line is % if, else or end. */
static bool
is_condition(struct imp *x, const char *word, const char *p)
{
	bool run = counts(x);

	if (strcmp(word, "if") == 0) {
		if (x->depth == sizeof x->on) {
			die("family %s: %% if nests too deep", x->family);
		}
		x->on[x->depth++] = run && holds(x, p);
	} else if (strcmp(word, "else") == 0 && x->depth > 0) {
		x->on[x->depth - 1] = !x->on[x->depth - 1];
	} else if (strcmp(word, "end") == 0 && x->depth > 0) {
		x->depth--;
	} else {
		return false;
	}
	return true;
}

static const struct {
	const char *word;
	void (*run)(struct imp *x, const char *p);
} directives[] = {
	{ "size", do_size }, { "count", do_count }, { "number", do_number },
	{ "flag", do_flag },
	{ "word", do_word }, { "act", do_act }, { "only", do_only },
	{ "each", do_each }, { "note", do_note }, { "warn", do_warn },
	{ "skip", do_skip },
	{ "refuse", do_refuse }, { "dim", do_dim }, { "let", do_let },
	{ "rope", do_rope }, { "kinds", do_kinds }, { "stack", do_stack },
	 { "dtype", do_dtype }, { "prefix", do_prefix }
};

static void
run_line(struct imp *x, const char *line, int uses)
{
	const char *p = line + 1, *word;
	size_t i;

	if (*line != '%') {
		if (counts(x)) {
			imp_expand(x, line, &x->body, &x->pieces);
			buf_putc(&x->body, '\n');
		}
		return;
	}
	word = want_word(x, &p);
	p += strspn(p, " ");
	if (is_condition(x, word, p) || !counts(x) || *word == '#') {
		return;
	}
	if (strcmp(word, "use") == 0) {
		imp_run_file(x, p, uses + 1);
		return;
	}
	for (i = 0; i < sizeof directives / sizeof *directives; i++) {
		if (strcmp(directives[i].word, word) == 0) {
			directives[i].run(x, p);
			return;
		}
	}
	die("family %s: no line begins with %% %s", x->family, word);
}

/* The file of that name, or NULL. */
const struct imp_family_file *
imp_find_file(const char *name)
{
	size_t i;

	for (i = 0; i < imp_nfamily_files; i++) {
		if (strcmp(imp_family_files[i].name, name) == 0) {
			return &imp_family_files[i];
		}
	}
	return NULL;
}

void
imp_run_file(struct imp *x, const char *name, int uses)
{
	const struct imp_family_file *f = imp_find_file(name);
	const char *const *line;

	if (!f || uses > MOST_USES) {
		die("family %s: cannot use %s", x->family, name);
	}
	for (line = f->lines; *line; line++) {
		run_line(x, *line, uses);
	}
}
