/*
 * What the interpreter made of a text in which mistakes are planted: each of
 * them is held to the same values, so they are computed once.  A part of
 * t-attention.h, with its `s`.
 */
#ifndef T_ATTENTION_KEPT_H
#define T_ATTENTION_KEPT_H

static struct {
	struct mem mem;
	struct arena a;
	const char *text;	/* NULL: nothing */
	struct value *values;
} kept;

/* Whether these values are there; then they are s.values. */
static bool
take_kept(void)
{
	if (!s.planted || s.bad || !kept.text ||
	    strcmp(kept.text, s.text) != 0) {
		return false;
	}
	s.values = kept.values;
	return true;
}

/* Keeps s.values if mistakes are planted. */
static void
keep(void)
{
	uint32_t n = s.m->values.n, v;

	if (!s.planted || s.bad) {
		return;
	}
	if (kept.text) {
		arena_release(&kept.a);
	}
	mem_init(&kept.mem);
	arena_init(&kept.a, &kept.mem);
	kept.text = arena_strndup(&kept.a, s.text, strlen(s.text));
	kept.values = arena_dup(&kept.a, s.values, n * sizeof *s.values);
	for (v = 1; v < n; v++) {
		struct value *x = &kept.values[v];

		if (x->data) {
			x->data = arena_dup(&kept.a, x->data, (size_t)x->elems *
					    sizeof *x->data);
		}
	}
}

#endif
