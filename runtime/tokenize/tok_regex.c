/*
 * From a pattern's program to a deterministic automaton, whole and at once.
 *
 * A state is the list of the program's ops that may come next, in the order of
 * their preference.  The next character, or that there is none, decides looks
 * ahead, matches and the list after it; when the list meets a match, what is
 * behind is dropped, since alternatives that come later do not count.  So a
 * transition says both where to go on and whether a match ends before the
 * character: leftmost-first, as Perl has it, without backtracking.
 */
#include "runtime/tokenize/tok_regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEAD = 0, START = 1, MAX_STEPS = 20000000 };

struct re_state {
	size_t at, n;	/* its list, in lists[] */
	uint64_t hash;
};

struct re_maker {
	const struct rt_regex_program *p;
	struct rt_regex *r;
	struct rt_regex_error *e;
	uint32_t *lists;
	size_t nlists, cap;
	struct re_state *states;
	size_t nstates;
	uint32_t *samples;	/* a character of each class */
	unsigned char *seen;	/* of each op, in one step */
	uint32_t *stack, *next;
	size_t steps;
};

struct rt_regex {
	struct rt_alloc alloc;
	size_t stride;		/* classes and the end of the text */
	uint32_t *go;		/* next state * stride * 2 + matched */
	size_t nstates;
	bool *parts;		/* [class][class] */
	bool *always, *touches;	/* [class] */
	unsigned char class_of[RT_UNICODE_END];
};

static bool
too_large(struct re_maker *m, const char *what)
{
	m->e->status = RT_FORMAT;
	m->e->at = 0;
	snprintf(m->e->message, sizeof m->e->message, "%s", what);
	return false;
}

static bool
no_memory(struct re_maker *m)
{
	too_large(m, "out of memory");
	m->e->status = RT_NOMEM;
	return false;
}

/* ---- classes of characters -------------------------------------------- */

static int
compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Where any set begins or ends, in order. */
static uint32_t *
borders_of(const struct re_maker *m, size_t *n)
{
	size_t i, j, total = 1, k = 0;
	uint32_t *b;

	for (i = 0; i < m->p->nsets; i++) {
		total += 2 * m->p->sets[i].n;
	}
	b = rt_resize(&m->r->alloc, NULL, total, sizeof *b);
	if (!b) {
		return NULL;
	}
	b[k++] = 0;
	for (i = 0; i < m->p->nsets; i++) {
		for (j = 0; j < m->p->sets[i].n; j++) {
			b[k++] = m->p->sets[i].at[j][0];
			b[k++] = m->p->sets[i].at[j][1];
		}
	}
	qsort(b, k, sizeof *b, compare_numbers);
	for (i = 1, *n = 1; i < k; i++) {
		if (b[i] != b[*n - 1] && b[i] < RT_UNICODE_END) {
			b[(*n)++] = b[i];
		}
	}
	return b;
}

/*
 * Characters that are in the same sets are one class.  Classes are found set by
 * set: a class of which a set has only a part is split in two.
 */
static bool
number_classes(struct re_maker *m, const uint32_t *b, unsigned char *of,
	       size_t n, size_t *nclasses)
{
	uint32_t split[256], count = 1;
	size_t i, s, at;

	memset(of, 0, n);
	for (s = 0; s < m->p->nsets; s++) {
		const struct rt_charset *set = &m->p->sets[s];
		bool out[256] = { false };

		memset(split, 0, sizeof split);
		for (i = at = 0; i < n; i++) {
			while (at < set->n && set->at[at][1] <= b[i]) {
				at++;
			}
			out[of[i]] |= at == set->n || set->at[at][0] > b[i];
		}
		for (i = at = 0; i < n; i++) {
			unsigned char *x = &of[i];

			while (at < set->n && set->at[at][1] <= b[i]) {
				at++;
			}
			if (at == set->n || set->at[at][0] > b[i] || !out[*x]) {
				continue;
			}
			if (!split[*x]) {
				split[*x] = count++;
			}
			*x = (unsigned char)split[*x];
			if (count > RT_REGEX_MAX_CLASSES) {
				return too_large(m, "a pattern with more than "
						 "200 kinds of characters");
			}
		}
	}
	*nclasses = count;
	return true;
}

static bool
make_classes(struct re_maker *m)
{
	size_t n, i, nclasses = 0;
	uint32_t *b = borders_of(m, &n);
	unsigned char *of = b ? rt_resize(&m->r->alloc, NULL, n, 1) : NULL;
	bool ok = of && number_classes(m, b, of, n, &nclasses);

	if (!of) {
		no_memory(m);
	}
	if (ok) {
		m->samples = rt_resize(&m->r->alloc, NULL, nclasses,
				       sizeof *m->samples);
		ok = m->samples || no_memory(m);
	}
	for (i = 0; i < n && ok; i++) {
		uint32_t end = i + 1 < n ? b[i + 1] : RT_UNICODE_END;

		memset(m->r->class_of + b[i], of[i], end - b[i]);
		m->samples[of[i]] = b[i];
	}
	m->r->stride = nclasses + 1;
	rt_release(&m->r->alloc, b);
	rt_release(&m->r->alloc, of);
	return ok;
}

/* ---- states ----------------------------------------------------------- */

/* The state with that list, made if there is none. */
static bool
find_state(struct re_maker *m, size_t n, size_t *out)
{
	const struct rt_alloc *a = &m->r->alloc;
	uint64_t hash = 14695981039346656037u;
	uint32_t *more;
	size_t i;

	for (i = 0; i < n; i++) {
		hash = (hash ^ m->next[i]) * 1099511628211u;
	}
	for (i = 0; i < m->nstates; i++) {
		if (m->states[i].hash == hash && m->states[i].n == n &&
		    (n == 0 || memcmp(m->lists + m->states[i].at, m->next,
				      n * sizeof *m->next) == 0)) {
			*out = i;
			return true;
		}
	}
	if (m->nstates == RT_REGEX_MAX_STATES) {
		return too_large(m, "a pattern with more than 2048 states");
	}
	if (m->nlists + n > m->cap) {
		m->cap = 2 * (m->nlists + n);
		more = rt_resize(a, m->lists, m->cap, sizeof *more);
		if (!more) {
			return no_memory(m);
		}
		m->lists = more;
	}
	if (n > 0) {
		memcpy(m->lists + m->nlists, m->next, n * sizeof *m->next);
	}
	m->states[m->nstates] = (struct re_state){ m->nlists, n, hash };
	m->nlists += n;
	*out = m->nstates++;
	return true;
}

static bool
has(const struct re_maker *m, uint32_t set, bool end, uint32_t c)
{
	return !end && rt_charset_has(&m->p->sets[set], c);
}

/* Follows one op of a list; true at a match, which drops the rest. */
static bool
follow(struct re_maker *m, uint32_t from, bool end, uint32_t c, size_t *n)
{
	size_t top = 0;

	m->stack[top++] = from;
	while (top > 0) {
		uint32_t at = m->stack[--top];
		const struct rt_regex_op *op = &m->p->ops[at];

		if (m->seen[at]) {
			continue;
		}
		m->seen[at] = 1;
		m->steps++;
		switch (op->kind) {
		case RT_RE_JUMP:
			m->stack[top++] = op->x;
			break;
		case RT_RE_SPLIT:
			m->stack[top++] = op->y;
			m->stack[top++] = op->x;
			break;
		case RT_RE_NEXT:
		case RT_RE_NOT_NEXT:
			if (has(m, op->x, end, c) == (op->kind == RT_RE_NEXT)) {
				m->stack[top++] = at + 1;
			}
			break;
		case RT_RE_SET:
			if (has(m, op->x, end, c)) {
				m->next[(*n)++] = at + 1;
			}
			break;
		case RT_RE_MATCH:
			return true;
		}
	}
	return false;
}

static bool
make_transition(struct re_maker *m, size_t state, size_t class)
{
	bool end = class + 1 == m->r->stride, matched = false;
	uint32_t c = end ? 0 : m->samples[class];
	size_t n = 0, i, to;

	memset(m->seen, 0, m->p->n);
	for (i = 0; i < m->states[state].n && !matched; i++) {
		matched = follow(m, m->lists[m->states[state].at + i], end, c,
				 &n);
	}
	if (m->steps > MAX_STEPS) {
		return too_large(m, "a pattern that takes too long to read");
	}
	if (!find_state(m, n, &to)) {
		return false;
	}
	m->r->go[state * m->r->stride + class] =
		(uint32_t)(to * m->r->stride * 2 + matched);
	return true;
}

static bool
make_states(struct re_maker *m)
{
	const struct rt_alloc *a = &m->r->alloc;
	size_t s, c, cap = 0, zero;
	uint32_t *more;

	if (!find_state(m, 0, &zero)) {
		return false;
	}
	m->next[0] = 0;
	if (!find_state(m, 1, &zero)) {
		return false;
	}
	for (s = 0; s < m->nstates; s++) {
		if (s == cap) {
			cap = cap ? 2 * cap : 32;
			more = rt_resize(a, m->r->go, cap * m->r->stride,
					 sizeof *more);
			if (!more) {
				return no_memory(m);
			}
			m->r->go = more;
		}
		for (c = 0; c < m->r->stride; c++) {
			if (!make_transition(m, s, c)) {
				return false;
			}
		}
	}
	m->r->nstates = m->nstates;
	return true;
}

/* ---- what is known of neighbours --------------------------------------- */

static uint32_t
goes(const struct rt_regex *r, size_t state, size_t class)
{
	return r->go[state * r->stride + class];
}

static size_t
state_of(const struct rt_regex *r, uint32_t go)
{
	return (go >> 1) / r->stride;
}

/* What follows from each class that a state has just read. */
static void
note_state(struct rt_regex *r, size_t class, size_t state)
{
	size_t n = r->stride - 1, b;
	uint32_t last = goes(r, state, n);

	for (b = 0; b < n; b++) {
		uint32_t x = goes(r, state, b);

		if (state_of(r, x) != DEAD || (x & 1) != (last & 1)) {
			r->parts[class * n + b] = false;
		}
	}
}

static bool
make_facts(struct re_maker *m)
{
	struct rt_regex *r = m->r;
	size_t n = r->stride - 1, a, s, i;

	r->parts = rt_resize(&r->alloc, NULL, n * n, sizeof *r->parts);
	r->always = rt_resize(&r->alloc, NULL, n, sizeof *r->always);
	r->touches = rt_resize(&r->alloc, NULL, n, sizeof *r->touches);
	if (!r->parts || !r->always || !r->touches) {
		return no_memory(m);
	}
	for (i = 0; i < n * n; i++) {
		r->parts[i] = true;
	}
	for (a = 0; a < n; a++) {
		size_t first = state_of(r, goes(r, START, a));

		r->touches[a] = false;
		for (s = START; s < r->nstates; s++) {
			size_t to = state_of(r, goes(r, s, a));

			if (to != DEAD) {
				r->touches[a] = true;
				note_state(r, a, to);
			}
		}
		r->always[a] = true;
		for (i = 0; i < r->stride; i++) {
			r->always[a] &= goes(r, first, i) & 1;
		}
	}
	return true;
}

/* ---- the public functions --------------------------------------------- */

static bool
make_regex(struct re_maker *m)
{
	const struct rt_alloc *a = &m->r->alloc;

	m->states = rt_resize(a, NULL, RT_REGEX_MAX_STATES,
			      sizeof *m->states);
	m->seen = rt_resize(a, NULL, m->p->n, 1);
	m->stack = rt_resize(a, NULL, 2 * m->p->n + 2, sizeof *m->stack);
	m->next = rt_resize(a, NULL, m->p->n + 1, sizeof *m->next);
	if (!m->states || !m->seen || !m->stack || !m->next) {
		return no_memory(m);
	}
	return make_classes(m) && make_states(m) && make_facts(m);
}

struct rt_regex *
rt_regex_open(const struct rt_alloc *a, const char *pattern, size_t n,
	      struct rt_regex_error *e)
{
	struct rt_regex *r = rt_resize(a, NULL, 1, sizeof *r);
	struct rt_regex_program p = { 0 };
	struct re_maker m = { .p = &p, .r = r, .e = e };
	bool ok;

	if (!r) {
		no_memory(&m);
		return NULL;
	}
	memset(r, 0, offsetof(struct rt_regex, class_of));
	r->alloc = *a;
	ok = rt_regex_parse(&p, a, pattern, n, e) && make_regex(&m);
	rt_release(a, m.lists);
	rt_release(a, m.states);
	rt_release(a, m.samples);
	rt_release(a, m.seen);
	rt_release(a, m.stack);
	rt_release(a, m.next);
	rt_regex_program_release(&p, a);
	if (!ok) {
		rt_regex_free(r);
		return NULL;
	}
	return r;
}

void
rt_regex_free(struct rt_regex *r)
{
	if (r) {
		struct rt_alloc a = r->alloc;

		rt_release(&a, r->go);
		rt_release(&a, r->parts);
		rt_release(&a, r->always);
		rt_release(&a, r->touches);
		rt_release(&a, r);
	}
}

size_t
rt_regex_match(const struct rt_regex *r, const char *s, size_t n, size_t at,
	       size_t *work)
{
	const uint32_t *go = r->go;
	uint32_t x = (uint32_t)(START * r->stride * 2);
	size_t end = at, len;

	while (at < n) {
		unsigned char byte = (unsigned char)s[at];

		if (byte < 0x80) {
			x = go[(x >> 1) + r->class_of[byte]];
			len = 1;
		} else {
			uint32_t c = rt_utf8_get(s + at, &len);

			x = go[(x >> 1) + r->class_of[c]];
		}
		end = x & 1 ? at : end;
		if (x < 2) {
			break;
		}
		at += len;
	}
	if (at >= n && go[(x >> 1) + r->stride - 1] & 1) {
		end = at;
	}
	*work += at - end;
	return end;
}

bool
rt_regex_parts(const struct rt_regex *r, uint32_t a, uint32_t b)
{
	return r->parts[r->class_of[a] * (r->stride - 1) + r->class_of[b]];
}

bool
rt_regex_always(const struct rt_regex *r, uint32_t c)
{
	return r->always[r->class_of[c]];
}

bool
rt_regex_touches(const struct rt_regex *r, uint32_t c)
{
	return r->touches[r->class_of[c]];
}
