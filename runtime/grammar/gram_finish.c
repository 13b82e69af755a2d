/*
 * Grammars: what they are made of, and what is known of them once all of their
 * nodes are there; see gram.h.
 */
#include "runtime/grammar/gram.h"

#include <stdlib.h>
#include <string.h>

/* ---- what they are made of ---- */

/* Space for one more element; NULL: memory is out. */
static void *
more(void *at, size_t n, size_t *cap, size_t size)
{
	void *p = at;

	if (n == *cap) {
		p = realloc(at, (2 * *cap + 32) * size);
		*cap = p ? 2 * *cap + 32 : *cap;
	}
	return p;
}

int32_t
gram_add_node(struct rt_grammar *g, enum gram_kind kind)
{
	struct gram_node *at = more(g->nodes, g->nnodes, &g->nodes_cap,
				    sizeof *at);

	if (!at) {
		return -1;
	}
	g->nodes = at;
	at[g->nnodes] = (struct gram_node){ .kind = kind, .inner = -1,
					    .pattern = -1, .most = -1 };
	return (int32_t)g->nnodes++;
}

bool
gram_add_part(struct rt_grammar *g, int32_t node, bool required)
{
	struct gram_part *at = more(g->parts, g->nparts, &g->parts_cap,
				    sizeof *at);

	if (!at) {
		return false;
	}
	g->parts = at;
	at[g->nparts++] = (struct gram_part){ .node = node,
					      .required = required };
	return true;
}

bool
gram_add_text(struct rt_grammar *g, const char *s, size_t n, int32_t order)
{
	struct gram_text *at = more(g->texts, g->ntexts, &g->texts_cap,
				    sizeof *at);
	char *copy = malloc(n + 1);

	g->texts = at ? at : g->texts;
	if (!at || !copy) {
		free(copy);
		return false;
	}
	memcpy(copy, s, n);
	copy[n] = '\0';
	at[g->ntexts++] = (struct gram_text){ .at = copy, .n = n,
					      .order = order };
	return true;
}

struct gram_pattern *
gram_add_pattern(struct rt_grammar *g)
{
	struct gram_pattern *at = more(g->patterns, g->npatterns,
				       &g->patterns_cap, sizeof *at);

	if (!at) {
		return NULL;
	}
	g->patterns = at;
	return &at[g->npatterns++];
}

static int
by_bytes(const void *a, const void *b)
{
	const struct gram_text *x = a, *y = b;
	size_t n = x->n < y->n ? x->n : y->n;
	int d = memcmp(x->at, y->at, n);

	return d ? d : (x->n > y->n) - (x->n < y->n);
}

bool
gram_sort_texts(struct rt_grammar *g, const struct gram_node *x)
{
	struct gram_text *t = g->texts + x->text;
	int32_t i;

	qsort(t, (size_t)x->ntexts, sizeof *t, by_bytes);
	for (i = 1; i < x->ntexts; i++) {
		if (by_bytes(&t[i - 1], &t[i]) == 0) {
			return false;
		}
	}
	return true;
}

void
rt_grammar_free(struct rt_grammar *g)
{
	size_t i;

	if (!g) {
		return;
	}
	for (i = 0; i < g->ntexts; i++) {
		free(g->texts[i].at);
	}
	free(g->nodes);
	free(g->parts);
	free(g->texts);
	free(g->patterns);
	free(g);
}

/* ---- heights ---- */

static int32_t
height_of_parts(const struct rt_grammar *g, const struct gram_node *x)
{
	bool any = x->kind == GRAM_UNION;
	int32_t h = any ? GRAM_ENDLESS : 0, i;

	for (i = 0; i < x->n; i++) {
		const struct gram_part *p = &g->parts[x->first + i];
		int32_t inner = g->nodes[p->node].height;

		if (any) {
			h = inner < h ? inner : h;
		} else if (p->required) {
			h = inner > h ? inner : h;
		}
	}
	return h;
}

/* Of those that an array has to have. */
static int32_t
height_of_items(const struct rt_grammar *g, const struct gram_node *x)
{
	int32_t h = x->least > x->n ? g->nodes[x->inner].height : 0, i;

	for (i = 0; i < x->n && i < x->least; i++) {
		int32_t item = g->nodes[g->parts[x->first + i].node].height;

		h = item > h ? item : h;
	}
	return h;
}

static int32_t
height_of(const struct rt_grammar *g, const struct gram_node *x)
{
	int32_t h = 0;

	switch (x->kind) {
	case GRAM_UNION:
		return height_of_parts(g, x);
	case GRAM_OBJECT:
		h = height_of_parts(g, x);
		break;
	case GRAM_ARRAY:
		h = height_of_items(g, x);
		break;
	case GRAM_NAMED:
		return g->nodes[x->inner].height;
	default:
		return 0;
	}
	return h < GRAM_ENDLESS ? h + 1 : h;
}

/* From above: each round makes some lower, or is the last.  Rounds are few but
 * where references lead from each node to the one before it. */
static void
find_heights(struct rt_grammar *g)
{
	bool changed = true;
	size_t i;
	int32_t h;

	for (i = 0; i < g->nnodes; i++) {
		g->nodes[i].height = GRAM_ENDLESS;
	}
	while (changed) {
		changed = false;
		for (i = g->nnodes; i-- > 0;) {
			h = height_of(g, &g->nodes[i]);
			h = h > GRAM_DEPTH ? GRAM_ENDLESS : h;
			changed = changed || h != g->nodes[i].height;
			g->nodes[i].height = h;
		}
	}
}

/* ---- unions of unions ---- */

struct gram_search {
	int32_t *queue;		/* unions that were met */
	uint32_t *met;		/* of each node, in which search last */
	uint32_t search;
};

/* Meets a node; whether for the first time. */
static bool
meet(struct gram_search *s, int32_t node)
{
	bool first = s->met[node] != s->search;

	s->met[node] = s->search;
	return first;
}

/* Appends what a union comes to, in the order in which it is written. */
static bool
flatten(struct rt_grammar *g, int32_t node, struct gram_search *s,
	int32_t *wide)
{
	size_t first = g->nparts, at, end;
	bool partial = false;
	int32_t n = 1, i, k;

	s->search++;
	meet(s, node);
	s->queue[0] = node;
	/* the last of the queue is looked at first */
	while (n > 0) {
		int32_t u = s->queue[--n];
		const struct gram_node *x = &g->nodes[u];

		partial = partial || (u != node && x->height >= GRAM_ENDLESS) ||
			  (x->kind == GRAM_UNION && x->partial);
		if (x->kind != GRAM_UNION) {
			if (x->height < GRAM_ENDLESS &&
			    !gram_add_part(g, u, false)) {
				return false;
			}
			continue;
		}
		for (i = x->n; i-- > 0;) {
			k = g->parts[x->first + i].node;
			if (meet(s, k)) {
				s->queue[n++] = k;
			}
		}
	}
	at = first;
	end = g->nparts;
	g->nodes[node].first = (int32_t)at;
	g->nodes[node].n = (int32_t)(end - at);
	g->nodes[node].partial = partial;
	*wide = end - at > GRAM_WAYS ? node : *wide;
	return true;
}

static bool
flatten_all(struct rt_grammar *g, struct gram_search *s, int32_t *wide)
{
	size_t i;

	for (i = 0; i < g->nnodes && *wide < 0; i++) {
		if (g->nodes[i].kind == GRAM_UNION &&
		    !flatten(g, (int32_t)i, s, wide)) {
			return false;
		}
	}
	return true;
}

static void
find_required(struct rt_grammar *g)
{
	size_t i;
	int32_t k, next;

	for (i = 0; i < g->nnodes; i++) {
		const struct gram_node *x = &g->nodes[i];

		for (k = next = x->n; x->kind == GRAM_OBJECT && k-- > 0;) {
			struct gram_part *p = &g->parts[x->first + k];

			next = p->required ? k : next;
			p->next_required = next;
		}
	}
}

bool
gram_finish(struct rt_grammar *g, int32_t *wide)
{
	struct gram_search s = {
		.queue = calloc(g->nnodes + 1, sizeof *s.queue),
		.met = calloc(g->nnodes + 1, sizeof *s.met),
	};
	bool ok = s.queue && s.met;

	*wide = -1;
	if (ok) {
		find_heights(g);
		find_required(g);
		ok = flatten_all(g, &s, wide);
	}
	free(s.queue);
	free(s.met);
	return ok;
}
