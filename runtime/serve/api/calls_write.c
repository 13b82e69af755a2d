/*
 * Calls as replies have them, whole or as a stream; see calls.h.
 */
#include "runtime/serve/api/calls_read.h"

/* Nine letters and digits, as some models have it, are an id for all.  Numbers
 * of replies are 0x9e3779b97f4a7c15 apart (service.c), those of calls not. */
static void
write_id(uint64_t number, size_t i, struct rt_text *out)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	uint64_t z = number + ((uint64_t)i + 1) * 0xd1b54a32d192ed03u;
	int k;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	for (k = 0; k < 9; k++, z /= 62) {
		rt_text_add(out, "%c", digits[z % 62]);
	}
}

/* A call up to its arguments. */
static void
begin_write(const struct rt_calls *x, const char *text, uint64_t id, size_t i,
	    struct rt_text *out)
{
	const struct call *c = &x->call[i];

	rt_text_add(out, "\"id\":\"");
	write_id(id, i, out);
	rt_text_add(out, "\",\"type\":\"function\",\"function\":{\"name\":");
	rt_text_chars(out, text + c->name_from, c->name_to - c->name_from);
	rt_text_add(out, ",\"arguments\":");
}

void
rt_calls_write(const struct rt_calls *x, const char *text, uint64_t id,
	       struct rt_text *out)
{
	size_t i;

	rt_text_add(out, "[");
	for (i = 0; i < rt_calls_count(x); i++) {
		const struct call *c = &x->call[i];

		rt_text_add(out, "%s{", i ? "," : "");
		begin_write(x, text, id, i, out);
		rt_text_chars(out, text + c->from, c->to - c->from);
		rt_text_add(out, "}}");
	}
	rt_text_add(out, "]");
}

/* Where the arguments that are known end. */
static size_t
known_to(const struct rt_calls *x, const struct call *c)
{
	return c->over ? c->to : x->at;
}

bool
rt_calls_has_news(const struct rt_calls *x)
{
	size_t n = rt_calls_count(x);

	return n > 0 && (!x->call[n - 1].written ||
			 x->call[n - 1].sent < known_to(x, &x->call[n - 1]));
}

void
rt_calls_write_news(struct rt_calls *x, const char *text, uint64_t id,
		    struct rt_text *out)
{
	const char *comma = "";
	size_t i;

	rt_text_add(out, "[");
	for (i = 0; i < rt_calls_count(x); i++) {
		struct call *c = &x->call[i];
		size_t to = known_to(x, c);

		if (c->written && c->sent == to) {
			continue;
		}
		rt_text_add(out, "%s{\"index\":%zu,", comma, i);
		if (c->written) {
			rt_text_add(out, "\"function\":{\"arguments\":");
		} else {
			begin_write(x, text, id, i, out);
		}
		rt_text_chars(out, text + c->sent, to - c->sent);
		rt_text_add(out, "}}");
		c->written = true;
		c->sent = to;
		comma = ",";
	}
	rt_text_add(out, "]");
}
