/*
 * Texts that call functions; see grammar.h.
 *
 * The schemas of all functions become nodes of one grammar.  A call is an
 * object with two members: a constant, which is the function's name, and a
 * value of its schema; or a text with the name in it, and the value.
 */
#include "runtime/grammar/gram_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 128 };		/* of a text */

/* A function whose schema is read. */
struct call_reader {
	struct schema_reader x;
	struct rt_json j;
	struct rt_error err;
	char *copy;		/* of the schema: reading changes it */
	int32_t root;
};

struct calls_reader {
	const struct rt_grammar_calls *c;
	struct rt_grammar *g;
	struct call_reader *of;	/* of each function */
	struct rt_error *err;
};

/* Passes on what is wrong with a function's schema. */
static enum rt_status
wrong(const struct calls_reader *r, size_t i)
{
	return rt_fail(r->err, r->of[i].err.status, RT_NOWHERE, "the "
		       "parameters of '%.64s': %.300s", r->c->functions[i].name,
		       r->of[i].err.message);
}

static enum rt_status
read_schema(struct calls_reader *r, size_t i)
{
	const struct rt_grammar_function *f = &r->c->functions[i];
	struct call_reader *to = &r->of[i];

	to->copy = malloc(f->bytes + 1);
	if (!to->copy) {
		return rt_no_memory(r->err, NULL);
	}
	memcpy(to->copy, f->schema, f->bytes);
	to->copy[f->bytes] = '\0';
	to->j = (struct rt_json){ .text = to->copy, .len = f->bytes,
				  .err = &to->err };
	to->x.j = &to->j;
	to->x.g = r->g;
	return gram_read_schema(&to->x, &to->root) ? RT_OK : wrong(r, i);
}

/* Whether all values of a schema are objects. */
static bool
is_of_objects(const struct rt_grammar *g, int32_t node)
{
	const struct gram_node *x = &g->nodes[node];
	int32_t i;

	for (i = 0; x->kind == GRAM_UNION && i < x->n; i++) {
		if (g->nodes[g->parts[x->first + i].node].kind !=
		    GRAM_OBJECT) {
			return false;
		}
	}
	return x->kind == GRAM_UNION || x->kind == GRAM_OBJECT;
}

static enum rt_status
check_schemas(const struct calls_reader *r, int32_t wide)
{
	size_t i;

	for (i = 0; i < r->c->n; i++) {
		struct call_reader *of = &r->of[i];

		if (!gram_check_schema(&of->x, of->root, wide)) {
			return wrong(r, i);
		}
		if (!is_of_objects(r->g, of->root)) {
			return rt_fail(r->err, RT_RANGE, RT_NOWHERE, "the "
				"parameters of '%.64s' are not an object: "
				"'type' says so", r->c->functions[i].name);
		}
	}
	return RT_OK;
}

/* The node of a call whose name stands before its arguments; -1: memory is
 * out. */
static int32_t
add_named_call(struct rt_grammar *g, const struct rt_grammar_calls *c,
	       const char *name, int32_t values)
{
	int32_t call = gram_add_node(g, GRAM_NAMED);
	char text[3 * 64 + 1];

	if (call < 0) {
		return -1;
	}
	snprintf(text, sizeof text, "%.64s%.64s%.64s", c->before_name, name,
		 c->after_name);
	g->nodes[call].text = (int32_t)g->ntexts;
	g->nodes[call].ntexts = 1;
	g->nodes[call].inner = values;
	return gram_add_text(g, text, strlen(text), 0) ? call : -1;
}

/* The node of a call that is an object; -1: memory is out. */
static int32_t
add_call(struct rt_grammar *g, const char *name, const char *arguments,
	 int32_t values)
{
	int32_t literal = gram_add_node(g, GRAM_LITERALS);
	int32_t call = gram_add_node(g, GRAM_OBJECT);
	char text[80];

	if (literal < 0 || call < 0) {
		return -1;
	}
	snprintf(text, sizeof text, "\"%.64s\"", name);
	g->nodes[literal].text = (int32_t)g->ntexts;
	g->nodes[literal].ntexts = 1;
	g->nodes[call].text = g->nodes[literal].text + 1;
	g->nodes[call].ntexts = g->nodes[call].n = 2;
	g->nodes[call].first = (int32_t)g->nparts;
	if (!gram_add_text(g, text, strlen(text), 0) ||
	    !gram_add_text(g, "name", 4, 0) ||
	    !gram_add_text(g, arguments, strlen(arguments), 1) ||
	    !gram_add_part(g, literal, true) ||
	    !gram_add_part(g, values, true)) {
		return -1;
	}
	gram_sort_texts(g, &g->nodes[call]);
	return call;
}

/* The node of any call. */
static int32_t
add_union(struct calls_reader *r)
{
	const struct rt_grammar_calls *c = r->c;
	int32_t any = gram_add_node(r->g, GRAM_UNION), first;
	/* a literal and an object, of which the second is the call */
	int32_t nodes = c->before_name ? 1 : 2;
	size_t i;

	first = any + 1;
	for (i = 0; i < c->n && any >= 0; i++) {
		const char *name = c->functions[i].name;

		if ((c->before_name
		     ? add_named_call(r->g, c, name, r->of[i].root)
		     : add_call(r->g, name, c->arguments, r->of[i].root)) < 0) {
			return -1;
		}
	}
	if (any >= 0) {
		r->g->nodes[any].first = (int32_t)r->g->nparts;
		r->g->nodes[any].n = (int32_t)c->n;
	}
	for (i = 0; i < c->n && any >= 0; i++) {
		if (!gram_add_part(r->g, first + nodes * ((int32_t)i + 1) - 1,
				   false)) {
			return -1;
		}
	}
	return any;
}

/* What is around the calls; returns the root, or -1. */
static int32_t
add_around(struct rt_grammar *g, const struct rt_grammar_calls *c,
	   int32_t call)
{
	/* after one call that nothing follows, nothing tells of its end */
	bool series = !c->list && c->after && (c->several || *c->after);
	int32_t around;

	if (call < 0 || (!c->list && !series)) {
		return call;
	}
	around = gram_add_node(g, series ? GRAM_SERIES : GRAM_ARRAY);
	if (around < 0) {
		return -1;
	}
	g->nodes[around].inner = call;
	g->nodes[around].least = 1;
	g->nodes[around].most = c->several ? CALLS : 1;
	g->nodes[around].text = (int32_t)g->ntexts;
	g->nodes[around].ntexts = series ? 2 : 0;
	if (series && (!gram_add_text(g, c->after, strlen(c->after), 0) ||
		       !gram_add_text(g, c->between, strlen(c->between), 1))) {
		return -1;
	}
	gram_sort_texts(g, &g->nodes[around]);
	return around;
}

static enum rt_status
read_calls(struct calls_reader *r)
{
	enum rt_status status = RT_OK;
	int32_t wide;
	size_t i;

	if (!r->g || !r->of) {
		return rt_no_memory(r->err, NULL);
	}
	for (i = 0; i < r->c->n && status == RT_OK; i++) {
		status = read_schema(r, i);
	}
	if (status != RT_OK) {
		return status;
	}
	r->g->root = add_around(r->g, r->c, add_union(r));
	if (r->g->root < 0 || !gram_finish(r->g, &wide)) {
		return rt_no_memory(r->err, NULL);
	}
	return check_schemas(r, wide);
}

enum rt_status
rt_grammar_of_calls(struct rt_grammar **out, const struct rt_grammar_calls *c,
		    struct rt_error *err)
{
	struct calls_reader r = { .c = c, .g = gram_open(), .err = err,
				  .of = calloc(c->n, sizeof *r.of) };
	enum rt_status status;
	size_t i;

	for (i = 0; i < c->n && r.of; i++) {
		r.of[i].x.text.alloc = rt_alloc_or_libc(NULL);
	}
	status = read_calls(&r);
	for (i = 0; i < c->n && r.of; i++) {
		gram_release_schema(&r.of[i].x);
		free(r.of[i].copy);
	}
	free(r.of);
	if (status != RT_OK) {
		rt_grammar_free(r.g);
		r.g = NULL;
	}
	*out = r.g;
	return status;
}
