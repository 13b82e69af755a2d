/*
 * Names as 32-bit ids: two names are the same name exactly when their ids
 * are equal.  Ids are given in order of first use, so they are the same in
 * every run.
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
	t->nslots = 64;
	t->slots = arena_alloc(a, t->nslots * sizeof *t->slots);
}

/* FNV-1a: short names, no adversary worth more (nslots only grows). */
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

static uint32_t *
slot_of(const struct intern *t, const char *s, size_t n)
{
	uint32_t i = hash(s, n) & (t->nslots - 1);

	while (t->slots[i]) {
		sym_t id = t->slots[i];

		if (t->len.at[id] == n &&
		    memcmp(t->text.at[id], s, n) == 0) {
			break;
		}
		i = (i + 1) & (t->nslots - 1);
	}
	return &t->slots[i];
}

static void
widen(struct intern *t)
{
	sym_t id;

	t->nslots *= 2;
	t->slots = arena_alloc(t->arena, t->nslots * sizeof *t->slots);
	for (id = 1; id < t->text.n; id++) {
		*slot_of(t, t->text.at[id], t->len.at[id]) = id;
	}
}

sym_t
intern_find(const struct intern *t, const char *s)
{
	return *s ? *slot_of(t, s, strlen(s)) : 0;
}

sym_t
intern(struct intern *t, const char *s, size_t n)
{
	uint32_t *slot;

	if (n == 0) {
		return 0;
	}
	slot = slot_of(t, s, n);
	if (!*slot) {
		*slot = t->text.n;
		VEC_PUSH(t->arena, &t->text, arena_strndup(t->arena, s, n));
		VEC_PUSH(t->arena, &t->len, (uint32_t)n);
		if (t->text.n * 2 > t->nslots) {
			widen(t);
			return t->text.n - 1;
		}
	}
	return *slot;
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
