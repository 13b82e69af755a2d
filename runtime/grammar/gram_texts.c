/*
 * Answers that are no JSON: one of some texts, or a text of a pattern; see
 * grammar.h.
 */
#include "runtime/grammar/gram_reader.h"

#include <string.h>

/* Ends with the text node as the root, or without a grammar. */
static enum rt_status
finish(struct rt_grammar **out, struct rt_grammar *g, struct rt_json *j)
{
	int32_t wide;

	if (j->status == RT_OK && !gram_finish(g, &wide)) {
		j->status = rt_no_memory(j->err, NULL);
	}
	if (j->status != RT_OK) {
		rt_grammar_free(g);
		g = NULL;
	}
	*out = g;
	return j->status;
}

/* A grammar whose root is a text; NULL: memory is out. */
static struct rt_grammar *
open_text(struct rt_json *j)
{
	struct rt_grammar *g = gram_open();

	if (g) {
		g->root = gram_add_node(g, GRAM_TEXT);
	}
	if (!g || g->root < 0) {
		rt_grammar_free(g);
		j->status = rt_no_memory(j->err, NULL);
		return NULL;
	}
	return g;
}

/* ---- one of some texts ---- */

/* What has a control character may have no tokens. */
static bool
may_be_chosen(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if ((unsigned char)s[i] < 0x20) {
			return false;
		}
	}
	return n > 0;
}

static bool
read_choice(struct rt_grammar *g, struct rt_json *j)
{
	const char *s;
	size_t n;

	if (!rt_json_any_text(j, &s, &n)) {
		return false;
	}
	if (!may_be_chosen(s, n)) {
		return rt_json_fail(j, RT_RANGE, NULL, "a choice has at least "
				    "one character, and no control characters");
	}
	if (!gram_add_text(g, s, n, 0)) {
		j->status = rt_no_memory(j->err, NULL);
		return false;
	}
	g->nodes[g->root].ntexts++;
	return true;
}

enum rt_status
rt_grammar_of_choices(struct rt_grammar **out, struct rt_json *j)
{
	struct rt_grammar *g = open_text(j);
	size_t i = 0;

	if (g && rt_json_open(j, '[')) {
		g->nodes[g->root].text = (int32_t)g->ntexts;
		while (rt_json_more(j, ']', &i) && read_choice(g, j)) {
		}
	}
	if (j->status == RT_OK && g->nodes[g->root].ntexts == 0) {
		rt_json_fail(j, RT_RANGE, NULL, "there is nothing to choose");
	}
	if (j->status == RT_OK && !gram_sort_texts(g, &g->nodes[g->root])) {
		rt_json_fail(j, RT_RANGE, NULL, "a choice is there twice");
	}
	return finish(out, g, j);
}

/* ---- a pattern ---- */

/* The whole text follows it, whether it says so or not. */
enum rt_status
rt_grammar_of_pattern(struct rt_grammar **out, struct rt_json *j)
{
	struct rt_grammar *g = open_text(j);
	struct gram_pattern *p = g ? gram_add_pattern(g) : NULL;
	const char *s, *why;
	size_t n, at;

	if (p && rt_json_any_text(j, &s, &n)) {
		g->nodes[g->root].pattern = (int32_t)g->npatterns - 1;
		why = gram_pattern_read(p, s, n, false, &at);
		if (why) {
			rt_json_fail(j, RT_RANGE, NULL, "a pattern %s, at "
				     "character %zu", why, at);
		}
	} else if (g && !p) {
		j->status = rt_no_memory(j->err, NULL);
	}
	return finish(out, g, j);
}
