/*
 * Names as 32-bit ids: two names are equal exactly when their ids are.  Ids are
 * given in the order of first use, so that they are the same in every run.
 */
#include "ir/base.h"

#include <string.h>

void
intern_init(struct intern *t, struct arena *a)
{
	memset(t, 0, sizeof *t);
	t->arena = a;
	VEC_PUSH(a, &t->text, "");
	VEC_PUSH(a, &t->len, 0);
}

/* FNV-1a: names are short, and nobody gains by making them collide. */
static uint32_t
hash(const char *s, size_t n)
{
	uint32_t h = 2166136261u;
	size_t i;

	for (i = 0; i < n; i++) {
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	}
	return h;
}

static sym_t
find(const struct intern *t, const char *s, size_t n, uint32_t h)
{
	sym_t id = 0;

	while ((id = table_find(&t->ids, h, id)) != 0 &&
	       (t->len.at[id] != n || memcmp(t->text.at[id], s, n) != 0)) {
	}
	return id;
}

sym_t
intern_find(const struct intern *t, const char *s)
{
	size_t n = strlen(s);

	return n ? find(t, s, n, hash(s, n)) : 0;
}

sym_t
intern(struct intern *t, const char *s, size_t n)
{
	uint32_t h = hash(s, n);
	sym_t id = n ? find(t, s, n, h) : 0;

	if (!id && n) {
		VEC_PUSH(t->arena, &t->text, arena_strndup(t->arena, s, n));
		VEC_PUSH(t->arena, &t->len, (uint32_t)n);
		id = table_add(t->arena, &t->ids, h);
	}
	return id;
}

sym_t
intern_str(struct intern *t, const char *s)
{
	return intern(t, s, strlen(s));
}

const char *
intern_text(const struct intern *t, sym_t id)
{
	if (id >= t->text.n) {
		die("no name has id %u", id);
	}
	return t->text.at[id];
}
