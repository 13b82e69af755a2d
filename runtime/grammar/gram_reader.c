/*
 * The nodes of a schema that is read, and what is wrong with it; see
 * gram_reader.h.
 */
#include "runtime/grammar/gram_reader.h"

#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

bool
gram_no_memory(struct schema_reader *x)
{
	return rt_json_fail(x->j, RT_NOMEM, NULL, "out of memory");
}

bool
gram_wrong(struct schema_reader *x, int32_t value, const char *fmt, ...)
{
	struct rt_line path = { .n = 0 };
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	gram_path(&x->t, value, &path);
	return rt_json_fail(x->j, RT_RANGE, NULL, "%.300s in the schema %s",
			    path.at, what);
}

/* ---- nodes ---- */

int32_t
gram_node_of(struct schema_reader *x, int32_t value)
{
	if (x->node_of[value] < 0) {
		if (x->g->nnodes >= GRAM_NODES) {
			gram_wrong(x, value, "is one of more than %d",
				   GRAM_NODES);
			return -1;
		}
		x->node_of[value] = gram_add_node(x->g, GRAM_UNION);
		if (x->node_of[value] < 0) {
			gram_no_memory(x);
			return -1;
		}
		x->todo[x->ntodo++] = value;
	}
	return x->node_of[value];
}

struct gram_node *
gram_node_at(struct schema_reader *x, int32_t node)
{
	return &x->g->nodes[node];
}

bool
gram_add_alternative(struct schema_reader *x, int32_t node)
{
	return node >= 0 &&
	       (gram_add_part(x->g, node, false) || gram_no_memory(x));
}

/* ---- members ---- */

bool
gram_write_name(struct schema_reader *x, const char *name)
{
	x->text.n = 0;
	rt_text_string(&x->text, name);
	return !x->text.failed || gram_no_memory(x);
}

int32_t
gram_find_member(struct schema_reader *x, const struct gram_node *n,
		 const char *name)
{
	const struct gram_text *t = x->g->texts + n->text;
	int32_t low = 0, high = n->ntexts, middle;
	size_t bytes;
	int d;

	if (!gram_write_name(x, name)) {
		return -2;
	}
	bytes = x->text.n - 2;
	while (low < high) {
		middle = low + (high - low) / 2;
		d = memcmp(t[middle].at, x->text.at + 1,
			   t[middle].n < bytes ? t[middle].n : bytes);
		d = d ? d : (t[middle].n > bytes) - (t[middle].n < bytes);
		if (d == 0) {
			return t[middle].order;
		}
		if (d < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return -1;
}
