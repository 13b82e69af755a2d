/*
 * A schema as a tree; see gram.h.
 */
#include "runtime/grammar/gram.h"

#include <stdlib.h>
#include <string.h>

static int32_t
add_value(struct gram_tree *t, struct rt_json *j, int32_t parent)
{
	struct gram_value *at = t->at;
	int32_t cap = t->cap ? 2 * t->cap : 64;

	if (t->n == GRAM_VALUES) {
		rt_json_fail(j, RT_RANGE, NULL, "a schema has at most %d "
			     "values, this has more", GRAM_VALUES);
		return -1;
	}
	if (t->n == t->cap) {
		at = realloc(at, (size_t)cap * sizeof *at);
		if (!at) {
			rt_json_fail(j, RT_NOMEM, NULL, "out of memory");
			return -1;
		}
		t->at = at;
		t->cap = cap;
	}
	at[t->n] = (struct gram_value){ .parent = parent, .next = -1,
					.child = -1 };
	return t->n++;
}

static bool
read_scalar(struct gram_value *v, struct rt_json *j)
{
	int c = rt_json_peek(j);

	if (c == '"') {
		v->kind = GRAM_CHARS;
		return rt_json_any_text(j, &v->text, &v->n);
	}
	v->kind = c == 'n' ? GRAM_NULL : c == 't' || c == 'f' ? GRAM_BOOL
		: GRAM_DIGITS;
	return rt_json_word(j, &v->text, &v->n);
}

/* Reads a value into the tree; it is the last in it without those inside. */
static int32_t
read_value(struct gram_tree *t, struct rt_json *j, int32_t parent, int depth)
{
	int32_t v = add_value(t, j, parent), inner, last = -1;
	int c = rt_json_peek(j);
	char close = c == '{' ? '}' : ']';
	const char *key = NULL;
	size_t i = 0;

	if (v < 0) {
		return -1;
	}
	if (c != '{' && c != '[') {
		return read_scalar(&t->at[v], j) ? v : -1;
	}
	if (depth == GRAM_DEPTH) {
		rt_json_fail(j, RT_RANGE, NULL, "a schema is nested at most %d "
			     "deep, this is deeper", GRAM_DEPTH);
		return -1;
	}
	t->at[v].kind = c == '{' ? GRAM_MEMBERS : GRAM_LIST;
	rt_json_open(j, (char)c);
	while (rt_json_more(j, close, &i)) {
		if (c == '{' && !rt_json_key(j, &key)) {
			return -1;
		}
		inner = read_value(t, j, v, depth + 1);
		if (inner < 0) {
			return -1;
		}
		t->at[inner].key = key;
		t->at[inner].index = (int32_t)i - 1;
		*(last < 0 ? &t->at[v].child : &t->at[last].next) = inner;
		last = inner;
	}
	return j->status == RT_OK ? v : -1;
}

bool
gram_tree_read(struct gram_tree *t, struct rt_json *j)
{
	*t = (struct gram_tree){ 0 };
	return read_value(t, j, -1, 0) == 0;
}

void
gram_tree_release(struct gram_tree *t)
{
	free(t->at);
}

bool
gram_is_text(const struct gram_value *v, const char *text)
{
	return v->kind == GRAM_CHARS && strlen(text) == v->n &&
	       memcmp(v->text, text, v->n) == 0;
}

/* ---- places ---- */

int32_t
gram_member(const struct gram_tree *t, int32_t of, const char *key)
{
	int32_t i, found = -1;

	if (t->at[of].kind != GRAM_MEMBERS) {
		return -1;
	}
	for (i = t->at[of].child; i >= 0; i = t->at[i].next) {
		found = strcmp(t->at[i].key, key) == 0 ? i : found;
	}
	return found;
}

static int32_t
item(const struct gram_tree *t, int32_t of, const char *index)
{
	char *end;
	unsigned long k = strtoul(index, &end, 10);
	int32_t i;

	if (t->at[of].kind != GRAM_LIST || *index < '0' || *index > '9' ||
	    *end) {
		return -1;
	}
	for (i = t->at[of].child; i >= 0 && k > 0; k--) {
		i = t->at[i].next;
	}
	return i;
}

static int
hex(char c)
{
	const char *digits = "0123456789abcdef0123456789ABCDEF";
	const char *hit = c ? strchr(digits, c) : NULL;

	return hit ? (int)(hit - digits) % 16 : -1;
}

/* One name of a pointer: "~1" is a slash, "~0" a tilde, "%20" a space.  False:
 * it is too long for a name here. */
static bool
read_name(const char **at, char *out, size_t size)
{
	const char *s = *at;
	size_t n = 0;

	for (; *s && *s != '/' && n + 1 < size; s++) {
		int hi = *s == '%' ? hex(s[1]) : -1;
		int lo = hi >= 0 ? hex(s[2]) : -1;

		out[n] = lo >= 0 ? (char)(hi * 16 + lo) : *s;
		s += lo >= 0 ? 2 : 0;
		if (out[n] == '~' && (s[1] == '0' || s[1] == '1')) {
			out[n] = *++s == '0' ? '~' : '/';
		}
		n++;
	}
	out[n] = '\0';
	*at = s;
	return !*s || *s == '/';
}

int32_t
gram_pointer(const struct gram_tree *t, const char *pointer)
{
	char name[256];
	int32_t at = 0;

	if (*pointer++ != '#') {
		return -1;
	}
	while (*pointer && at >= 0) {
		if (*pointer++ != '/' ||
		    !read_name(&pointer, name, sizeof name)) {
			return -1;
		}
		at = t->at[at].kind == GRAM_LIST ? item(t, at, name)
						 : gram_member(t, at, name);
	}
	return at;
}

void
gram_path(const struct gram_tree *t, int32_t value, struct rt_line *out)
{
	int32_t up[GRAM_DEPTH + 1], n = 0;

	for (; t->at[value].parent >= 0; value = t->at[value].parent) {
		up[n++] = value;
	}
	rt_line_add(out, "#");
	while (n > 0) {
		const struct gram_value *v = &t->at[up[--n]];

		if (v->key) {
			rt_line_add(out, "/%s", rt_show_name(v->key).text);
		} else {
			rt_line_add(out, "/%d", (int)v->index);
		}
	}
}

/* ---- writing ---- */

void
gram_write(const struct gram_tree *t, int32_t value, struct rt_text *out)
{
	const struct gram_value *v = &t->at[value];
	int32_t i;

	switch (v->kind) {
	case GRAM_NULL:
	case GRAM_BOOL:
	case GRAM_DIGITS:
		rt_text_bytes(out, v->text, v->n);
		return;
	case GRAM_CHARS:
		rt_text_chars(out, v->text, v->n);
		return;
	case GRAM_LIST:
	case GRAM_MEMBERS:
		break;
	}
	rt_text_add(out, v->kind == GRAM_LIST ? "[" : "{");
	for (i = v->child; i >= 0; i = t->at[i].next) {
		rt_text_add(out, i == v->child ? "" : ",");
		if (v->kind == GRAM_MEMBERS) {
			rt_text_string(out, t->at[i].key);
			rt_text_add(out, ":");
		}
		gram_write(t, i, out);
	}
	rt_text_add(out, v->kind == GRAM_LIST ? "]" : "}");
}
