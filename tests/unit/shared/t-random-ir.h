/*
 * Random modules as IR text: layers that call each other, repeats in repeats
 * with several carried values, weights that share names, values that nobody
 * uses.  All values are f32[a, b], so that any may stand anywhere.
 */
#ifndef TESTS_UNIT_T_RANDOM_IR_H
#define TESTS_UNIT_T_RANDOM_IR_H

#include "ir/base.h"

/* What a generated region can see. */
struct gen {
	struct buf *b;
	uint32_t values[256], n;	/* all of them f32[a, b] */
	uint32_t next;			/* number of the next value */
	uint32_t layers;		/* that may be called: 0 .. layers */
	uint32_t depth;
	bool var;			/* {i} may stand in names */
	uint32_t *rnd;
};

static uint32_t
draw(uint32_t *rnd, uint32_t n)
{
	*rnd ^= *rnd << 13;
	*rnd ^= *rnd >> 17;
	*rnd ^= *rnd << 5;
	return *rnd % n;
}

#define TYPE "f32[a, b]"

static uint32_t
pick(struct gen *g)
{
	return g->values[draw(g->rnd, g->n)];
}

static void
define(struct gen *g)
{
	if (g->n < 256) {
		g->values[g->n++] = g->next;
	}
	g->next++;
}

static void
gen_op(struct gen *g)
{
	static const char *const one[] = { "neg", "tanh", "relu", "cache" };
	static const char *const two[] = { "add", "sub", "mul" };

	switch (draw(g->rnd, 4)) {
	case 0:
		buf_printf(g->b, "%%%u = %s %%%u : " TYPE "\n", g->next,
			   one[draw(g->rnd, 4)], pick(g));
		break;
	case 1:
		buf_printf(g->b, "%%%u = weight name=\"w%u%s\" init=normal "
			   ": " TYPE "\n", g->next, draw(g->rnd, 3),
			   g->var && draw(g->rnd, 2) ? ".{i}" : "");
		break;
	default:
		buf_printf(g->b, "%%%u = %s %%%u, %%%u : " TYPE "\n", g->next,
			   two[draw(g->rnd, 3)], pick(g), pick(g));
		break;
	}
	define(g);
}

/* Layer k has k % 2 + 1 operands and as many results. */
static void
gen_call(struct gen *g)
{
	uint32_t k = draw(g->rnd, g->layers), n = k % 2 + 1, i;

	for (i = 0; i < n; i++) {
		buf_printf(g->b, "%s%%%u", i ? ", " : "", g->next + i);
	}
	buf_printf(g->b, " = call f%u(", k);
	for (i = 0; i < n; i++) {
		buf_printf(g->b, "%s%%%u", i ? ", " : "", pick(g));
	}
	buf_puts(g->b, ")");
	if (draw(g->rnd, 3)) {
		buf_printf(g->b, " name=\"c%u%s\"", draw(g->rnd, 2),
			   g->var && draw(g->rnd, 2) ? ".{i}" : "");
	}
	buf_puts(g->b, n == 2 ? " : " TYPE ", " TYPE "\n" : " : " TYPE "\n");
	for (i = 0; i < n; i++) {
		define(g);
	}
}

static void gen_body(struct gen *g, uint32_t nodes, const char *end,
		     uint32_t results);

static void
gen_repeat(struct gen *g)
{
	uint32_t n = draw(g->rnd, 3) + 1, first, i, outer = g->n, init[3];
	bool var = g->var;

	for (i = 0; i < n; i++) {
		init[i] = pick(g);
		buf_printf(g->b, "%s%%%u", i ? ", " : "", g->next + i);
	}
	first = g->next;
	g->next += n;
	g->var = draw(g->rnd, 2);
	buf_printf(g->b, " = repeat count=%u%s", draw(g->rnd, 3) + 1,
		   g->var ? " start=1 var=i" : "");
	if (draw(g->rnd, 3) == 0) {
		buf_printf(g->b, " name=\"r%u\"", draw(g->rnd, 2));
	}
	buf_puts(g->b, " (");
	for (i = 0; i < n; i++) {
		buf_printf(g->b, "%s%%%u = %%%u", i ? ", " : "", g->next,
			   init[i]);
		define(g);
	}
	buf_puts(g->b, ") : " TYPE);
	for (i = 1; i < n; i++) {
		buf_puts(g->b, ", " TYPE);
	}
	buf_puts(g->b, " {\n");
	g->depth++;
	gen_body(g, draw(g->rnd, 6) + 1, "yield", n);
	g->depth--;
	buf_puts(g->b, "}\n");
	g->n = outer;
	g->var = var;
	for (i = 0; i < n && g->n < 256; i++) {
		g->values[g->n++] = first + i;
	}
}

static void
gen_body(struct gen *g, uint32_t nodes, const char *end, uint32_t results)
{
	uint32_t i;

	for (i = 0; i < nodes; i++) {
		uint32_t what = draw(g->rnd, 8);

		if (what == 0 && g->depth < 3) {
			gen_repeat(g);
		} else if (what == 1 && g->layers) {
			gen_call(g);
		} else {
			gen_op(g);
		}
	}
	buf_printf(g->b, "%s ", end);
	for (i = 0; i < results; i++) {
		buf_printf(g->b, "%s%%%u", i ? ", " : "", pick(g));
	}
	buf_putc(g->b, '\n');
}

static const char *
random_module(struct arena *a, uint32_t seed)
{
	uint32_t layers = draw(&seed, 4), k, i;
	struct gen g = { 0 };
	struct buf b;

	buf_init(&b, a);
	buf_puts(&b, "llmc-ir 1\ndim a = 2\ndim b = a * 3 - 4\n");
	for (k = 0; k <= layers; k++) {
		uint32_t params = k < layers ? k % 2 + 1 : 0;

		g = (struct gen){ .b = &b, .layers = k, .rnd = &seed };
		buf_printf(&b, k < layers ? "layer f%u(" : "model {\n", k);
		for (i = 0; i < params; i++) {
			buf_printf(&b, "%s%%%u: " TYPE, i ? ", " : "", i);
			define(&g);
		}
		buf_puts(&b, k < layers ? ") {\n" : "");
		while (g.n == 0) {
			buf_puts(&b, "%0 = weight name=\"first\" init=normal "
				 ": " TYPE "\n");
			define(&g);
		}
		gen_body(&g, draw(&seed, 12) + 2, "return",
			 params ? params : 2);
		buf_puts(&b, "}\n");
	}
	return buf_text(&b);
}

#undef TYPE
#endif
