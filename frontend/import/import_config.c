/*
 * config.json as a flat list of fields, each with its place in the file, so
 * that whatever is wrong with one is shown there.
 */
#include "frontend/import/import_family.h"

#include <string.h>

#include "runtime/json.h"

#define MOST_FIELDS 5000
#define MOST_DEPTH 8		/* of values in values */
#define MOST_BYTES (4 << 20)

struct config_reading {
	struct ir_ctx *c;
	struct rt_json j;
	uint32_t base;		/* of the file in the source map */
	struct imp_config *out;
};

static struct span
span_at(const struct config_reading *r, size_t lo, size_t hi)
{
	return (struct span){ r->base + (uint32_t)lo,
			      r->base + (uint32_t)hi };
}

static struct imp_field *
add_field(struct config_reading *r, const char *path, enum imp_kind kind)
{
	struct imp_field f = { .path = path, .kind = kind };

	VEC_PUSH(&r->c->perm, &r->out->at, f);
	return &r->out->at.at[r->out->at.n - 1];
}

static bool
too_much(struct config_reading *r, const char *what, int most)
{
	return rt_json_fail(&r->j, RT_FORMAT, r->j.text + r->j.at, "found "
			    "%s, expected at most %d in a config.json", what,
			    most);
}

static bool
read_scalar(struct config_reading *r, const char *path, size_t lo)
{
	struct imp_field *f;
	const char *word;
	size_t n;

	if (rt_json_peek(&r->j) == '"') {
		if (!rt_json_string(&r->j, &word)) {
			return false;
		}
		f = add_field(r, path, IMP_TEXT);
		f->text = word;
		f->span = span_at(r, lo, r->j.at);
		return true;
	}
	if (!rt_json_word(&r->j, &word, &n)) {
		return false;
	}
	f = add_field(r, path, *word == 'n' ? IMP_NULL :
		      *word == 't' || *word == 'f' ? IMP_BOOL : IMP_NUMBER);
	f->text = arena_strndup(&r->c->perm, word, n);
	f->num = *word == 't';
	f->span = span_at(r, lo, r->j.at);
	if (f->kind == IMP_NUMBER && !num_parse_double(word, n, &f->num)) {
		return rt_json_fail(&r->j, RT_FORMAT, word, "found a number "
				    "that no float64 holds, expected one");
	}
	return true;
}

static bool
read_value(struct config_reading *r, const char *path, int depth);

/* Whether the object that begins after field `first` has the key twice. */
static bool
is_twice(const struct config_reading *r, uint32_t first, const char *path)
{
	uint32_t i;

	for (i = first; i < r->out->at.n; i++) {
		if (strcmp(r->out->at.at[i].path, path) == 0) {
			return true;
		}
	}
	return false;
}

static bool
read_object(struct config_reading *r, const char *path, int depth)
{
	uint32_t first = r->out->at.n;
	const char *key;
	char *full;
	size_t i = 0;

	rt_json_open(&r->j, '{');
	while (rt_json_more(&r->j, '}', &i) && rt_json_key(&r->j, &key)) {
		full = arena_printf(&r->c->perm, "%s%s%s", path,
				    *path ? "." : "", key);
		if (is_twice(r, first, full)) {
			return rt_json_fail(&r->j, RT_FORMAT, key, "found key "
					    "'%s' twice, expected it once",
					    rt_show_name(key).text);
		}
		if (!read_value(r, full, depth)) {
			return false;
		}
	}
	return r->j.status == RT_OK;
}

static bool
read_list(struct config_reading *r, const char *path, int depth)
{
	size_t i = 0;

	rt_json_open(&r->j, '[');
	while (rt_json_more(&r->j, ']', &i)) {
		if (!read_value(r, arena_printf(&r->c->perm, "%s._%zu", path,
						i - 1), depth)) {
			return false;
		}
	}
	return r->j.status == RT_OK;
}

static bool
read_value(struct config_reading *r, const char *path, int depth)
{
	uint32_t at = r->out->at.n;
	int first = rt_json_peek(&r->j);
	size_t lo = r->j.at;
	bool ok;

	if (at == MOST_FIELDS) {
		return too_much(r, "too many values", MOST_FIELDS);
	}
	if (first != '{' && first != '[') {
		return read_scalar(r, path, lo);
	}
	if (depth == MOST_DEPTH) {
		return too_much(r, "values nested too deep", MOST_DEPTH);
	}
	add_field(r, path, first == '{' ? IMP_OBJECT : IMP_LIST);
	ok = first == '{' ? read_object(r, path, depth + 1)
			  : read_list(r, path, depth + 1);
	r->out->at.at[at].inside = r->out->at.n - at - 1;
	r->out->at.at[at].span = span_at(r, lo, lo + 1);
	return ok;
}

static bool
read_text(struct config_reading *r)
{
	return rt_json_check_utf8(&r->j) && read_object(r, "", 0) &&
	       rt_json_end(&r->j, " \t\r\n");
}

bool
imp_config_read(struct ir_ctx *c, uint32_t file, struct imp_config *out)
{
	const struct source_file *f = &c->sources.files.at[file];
	struct config_reading r = { .c = c, .base = f->base, .out = out };
	struct rt_error err = { .offset = -1 };
	size_t at;

	out->start = (struct span){ f->base, f->base };
	if (f->len > MOST_BYTES) {
		diag_error(&c->diags, out->start, "this file has %zu bytes, "
			   "and a config.json has at most %d",
			   (size_t)f->len, MOST_BYTES);
		return false;
	}
	r.j.text = arena_strndup(&c->perm, f->text, f->len);
	r.j.len = f->len;
	r.j.err = &err;
	if (read_text(&r)) {
		return true;
	}
	at = err.offset >= 0 ? (size_t)err.offset : 0;
	diag_error(&c->diags, span_at(&r, at, at), "%s", err.message);
	return false;
}

struct imp_field *
imp_config_find(const struct imp_config *g, const char *path)
{
	uint32_t i;

	for (i = 0; i < g->at.n; i++) {
		if (strcmp(g->at.at[i].path, path) == 0) {
			return &g->at.at[i];
		}
	}
	return NULL;
}

struct imp_field *
imp_config_given(const struct imp_config *g, const char *path)
{
	struct imp_field *f = imp_config_find(g, path);

	return f && f->kind != IMP_NULL ? f : NULL;
}
