/*
 * Random contractions as IR text: shapes, orders of dims, batches, dtypes,
 * views and epilogues.
 */
#ifndef T_DOT_TEXT_H
#define T_DOT_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

/* ---- random texts ---- */

struct text {
	struct arena *a;
	uint64_t rng;
	char dims[8][16];	/* "m1" */
	int64_t sizes[8];
	uint32_t ndims;
	char sliced;		/* 'a', 'b': an operand that is one; or 0 */
	bool panels;		/* B may lie in those */
	struct buf head, body;
	uint32_t values;	/* so far */
	const char *dtype;
	const char *turned;	/* dims: columns before rows */
};

static inline uint32_t
drawn(struct text *t, uint32_t n)
{
	t->rng ^= t->rng << 13;
	t->rng ^= t->rng >> 7;
	t->rng ^= t->rng << 17;
	return (uint32_t)(t->rng >> 20) % n;
}

/* New dims of a factor, at least so many; their product is at most `most`. */
static inline void
factor(struct text *t, char name, uint32_t least, int64_t most)
{
	static const int sizes[] = { 1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 48,
				     64, 100, 127, 200 };
	uint32_t n = least + drawn(t, 3 - least), i;
	bool whole = t->panels && strchr("nk", name);

	for (i = 0; i < n; i++) {
		int64_t size;

		do {
			size = whole ? 16 << drawn(t, 3)
				     : sizes[drawn(t, 15)];
		} while (!whole && size > most);
		if (size > most) {
			break;
		}
		most /= size;
		snprintf(t->dims[t->ndims], sizeof t->dims[0], "%c%u", name,
			 i);
		t->sizes[t->ndims++] = size;
		buf_printf(&t->head, "dim %c%u = %lld\n", name, i,
			   (long long)size);
	}
}

/* The dims whose names begin with one of these, in an order to be drawn. */
static inline uint32_t
shuffled(struct text *t, const char *names, uint32_t *order)
{
	uint32_t n = 0, i;

	for (i = 0; i < t->ndims; i++) {
		if (strchr(names, t->dims[i][0])) {
			uint32_t at = drawn(t, n + 1);

			memmove(order + at + 1, order + at,
				(n - at) * sizeof *order);
			order[at] = i;
			n++;
		}
	}
	return n;
}

static inline const char *
list(struct text *t, const uint32_t *order, uint32_t n, char only)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, t->a);
	for (i = 0; i < n; i++) {
		if (!only || t->dims[order[i]][0] == only) {
			buf_printf(&b, "%s%s", b.n ? ", " : "",
				   t->dims[order[i]]);
		}
	}
	return buf_text(&b);
}

/* An operand as a weight, or as a part of one; its value. */
static inline uint32_t
operand(struct text *t, char name, const uint32_t *order, uint32_t n)
{
	const char *dims = list(t, order, n, 0), *cut;
	char *whole;
	uint32_t v = t->values++;

	if (t->sliced != name || n < 2) {
		buf_printf(&t->body, "  %%%u = weight name=\"%c\"%s : "
			   "%s[%s]\n", v, name, t->panels && name == 'b'
			   ? " frozen" : "", t->dtype, dims);
		return v;
	}
	/* the last dim stays the last, as the groups want it */
	cut = t->dims[order[0]];
	buf_printf(&t->head, "dim w%c = %lld\n", name,
		   (long long)t->sizes[order[0]] + 5);
	whole = arena_printf(t->a, "w%c, %s", name, strchr(dims, ' ') + 1);
	buf_printf(&t->body, "  %%%u = weight name=\"%c\" : %s[%s]\n", v, name,
		   t->dtype, whole);
	buf_printf(&t->body, "  %%%u = slice %%%u of=w%c to=%s at=3 : "
		   "%s[%s]\n", t->values, v, name, cut, t->dtype, dims);
	return t->values++;
}

static inline uint32_t
other(struct text *t, const char *name, const char *dims)
{
	buf_printf(&t->body, "  %%%u = weight name=\"%s\" : %s[%s]\n",
		   t->values, name, t->dtype, dims);
	return t->values++;
}

static inline uint32_t
map(struct text *t, const char *what, uint32_t a, int64_t b,
    const char *dims)
{
	buf_printf(&t->body, "  %%%u = %s %%%u", t->values, what, a);
	if (b >= 0) {
		buf_printf(&t->body, ", %%%lld", (long long)b);
	}
	buf_printf(&t->body, " : %s[%s]\n", t->dtype, dims);
	return t->values++;
}

/* The epilogue of the dot y; `last` is the last dim, if there is any. */
static inline void
epilogue(struct text *t, uint32_t kind, uint32_t y, const char *dims,
	 const char *last)
{
	uint32_t x = y;

	switch (kind) {
	case 0:
		break;
	case 1:
		buf_printf(&t->body, "  accumulate %%%u name=\"g\"\n"
			   "  return %%0\n}\n", y);
		return;
	case 2:
		x = map(t, "add", y, other(t, "bias", last), dims);
		break;
	case 3:
		x = map(t, "add", y, other(t, "residual", dims), dims);
		break;
	case 4:
		x = map(t, "silu", other(t, "gate", dims), -1, dims);
		x = map(t, "mul", x, y, dims);
		break;
	case 5:
		x = map(t, "mul", y, other(t, "scale", dims), dims);
		buf_printf(&t->body, "  accumulate %%%u name=\"g\"\n", x);
		x = map(t, "gelu", x, -1, dims);
		break;
	case 7:			/* a weight that lies the other way round */
		if (!*dims) {
			break;
		}
		buf_printf(&t->body, "  %%%u = arrange %%%u over=(%s) : %s[%s]"
			   "\n  accumulate %%%u name=\"g\"\n  return %%0\n}\n",
			   t->values, y, t->turned, t->dtype, t->turned,
			   t->values);
		return;
	default:		/* both the dot and what is made of it */
		x = map(t, "tanh", y, -1, dims);
		buf_printf(&t->body, "  return %%%u, %%%u\n}\n", y, x);
		return;
	}
	buf_printf(&t->body, "  return %%%u\n}\n", x);
}

static inline int
by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* If `panels`, B has its dims in an order and sizes that many panels have. */
static inline const char *
drawn_text(struct arena *a, uint64_t seed, uint32_t epilogues, bool panels)
{
	static const char *const dtypes[] = { "f32", "f32", "bf16", "f16" };
	struct text t = { .a = a, .rng = seed * 0x9e3779b97f4a7c15 | 1,
			  .panels = panels };
	uint32_t ia[6] = { 0 }, ib[6] = { 0 }, na, nb, x, y, i;
	struct buf dims, turned;
	const char *last = "";

	buf_init(&t.head, a);
	buf_init(&t.body, a);
	buf_init(&dims, a);
	t.dtype = dtypes[drawn(&t, 4)];
	t.sliced = (char)"ab00"[drawn(&t, 4)];
	factor(&t, 'b', 0, drawn(&t, 3) ? 1 : 6);
	factor(&t, 'm', 0, 300);
	factor(&t, 'n', panels, 300);
	factor(&t, 'k', 1, drawn(&t, 8) ? 200 : 1200);
	na = shuffled(&t, "bmk", ia);
	nb = shuffled(&t, "bnk", ib);
	if (panels) {	/* as they were drawn: batch, n, k */
		qsort(ib, nb, sizeof *ib, by_number);
	}
	x = operand(&t, 'a', ia, na);
	y = operand(&t, 'b', ib, nb);
	buf_puts(&dims, list(&t, ia, na, 'b'));
	for (i = 0; i < 2; i++) {
		const char *part = list(&t, i ? ib : ia, i ? nb : na,
					i ? 'n' : 'm');

		buf_printf(&dims, "%s%s", dims.n && *part ? ", " : "", part);
	}
	buf_printf(&t.body, "  %%%u = dot %%%u, %%%u over=(%s) : %s[%s]\n",
		   t.values, x, y, list(&t, ia, na, 'k'), t.dtype,
		   buf_text(&dims));
	if (dims.n) {
		last = strrchr(buf_text(&dims), ' ');
		last = last ? last + 1 : buf_text(&dims);
	}
	buf_init(&turned, a);
	for (i = 0; i < 3; i++) {
		char f = (seed & 1 ? "bnm" : "nbm")[i];
		const char *part = f == 'n' ? list(&t, ib, nb, f)
					    : list(&t, ia, na, f);

		buf_printf(&turned, "%s%s", turned.n && *part ? ", " : "",
			   part);
	}
	t.turned = buf_text(&turned);
	epilogue(&t, drawn(&t, epilogues), t.values++, buf_text(&dims), last);
	return arena_printf(a, "llmc-ir 1\n%s\nmodel {\n%s",
			    buf_text(&t.head), buf_text(&t.body));
}

static inline const char *
random_text(struct arena *a, uint64_t seed, uint32_t epilogues)
{
	return drawn_text(a, seed, epilogues, false);
}

/*
 * What an epilogue may ask of the blocks: whole last dims, boxes of several
 * dims, sums that wait until the last stretch of k.
 */
static const char *const dot_boxes[] = {
	"llmc-ir 1\ndim b = 3\ndim s = 70\ndim h = 5\ndim d = 24\n"
	"dim k = 90\nmodel {\n"
	"  %0 = weight name=\"a\" : f32[b, s, k]\n"
	"  %1 = weight name=\"b\" : f32[h, d, k]\n"
	"  %2 = weight name=\"p\" : f32[b, s]\n"
	"  %3 = dot %0, %1 over=k : f32[b, s, h, d]\n"
	"  %4 = rope_at %3, %2 theta=10000 : f32[b, s, h, d]\n"
	"  return %4\n}\n",
	"llmc-ir 1\ndim b = 3\ndim s = 70\ndim h = 5\ndim d = 24\n"
	"dim k = 90\nmodel {\n"
	"  %0 = weight name=\"a\" : f32[b, s, k]\n"
	"  %1 = weight name=\"b\" : f32[h, d, k]\n"
	"  %2 = dot %0, %1 over=k : f32[b, s, h, d]\n"
	"  %3 = rope %2 seq=s theta=10000 : f32[b, s, h, d]\n"
	"  return %3\n}\n",
	"llmc-ir 1\ndim b = 2\ndim s = 33\ndim d = 400\ndim k = 50\n"
	"model {\n"
	"  %0 = weight name=\"a\" : f32[b, s, k]\n"
	"  %1 = weight name=\"b\" : f32[k, d]\n"
	"  %2 = dot %0, %1 over=k : f32[b, s, d]\n"
	"  %3 = rope %2 seq=s theta=10000 interleaved : f32[b, s, d]\n"
	"  return %3\n}\n",
	"llmc-ir 1\ndim m = 300\ndim n = 40\ndim k = 9001\nmodel {\n"
	"  %0 = weight name=\"a\" : f32[m, k]\n"
	"  %1 = weight name=\"b\" : f32[n, k]\n"
	"  %2 = dot %0, %1 over=k : f32[m, n]\n"
	"  %3 = weight name=\"c\" : f32[n]\n"
	"  %4 = add %2, %3 : f32[m, n]\n"
	"  return %4\n}\n",
};
#define DOT_BOXES (sizeof dot_boxes / sizeof dot_boxes[0])

#endif
