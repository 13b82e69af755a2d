/*
 * Calls of functions in the text of an answer; see calls.h.
 */
#include "runtime/serve/api/calls_read.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

enum rt_status
rt_calls_grammar(const struct rt_call_form *f,
		 const struct rt_grammar_function *functions, size_t n,
		 bool several, struct rt_grammar **out, struct rt_error *err)
{
	struct rt_grammar_calls c = { .functions = functions, .n = n,
		.arguments = f->arguments, .several = several,
		.before_name = f->before_name, .after_name = f->after_name,
		.list = f->list, .after = f->after, .between = f->between };

	return rt_grammar_of_calls(out, &c, err);
}

struct rt_calls *
rt_calls_open(const struct rt_call_form *f, const struct rt_tools *tools)
{
	struct rt_calls *x = calloc(1, sizeof *x);

	if (x) {
		x->f = f;
		x->tools = tools;
		x->said.alloc = rt_alloc_or_libc(NULL);
	}
	return x;
}

void
rt_calls_free(struct rt_calls *x)
{
	if (x) {
		rt_text_release(&x->said);
		free(x->call);
		free(x);
	}
}

const struct rt_text *
rt_calls_said(const struct rt_calls *x)
{
	return &x->said;
}

/* The last call is none until its arguments begin and its name is known. */
static bool
is_call(const struct call *c)
{
	return c->named && c->begun;
}

size_t
rt_calls_count(const struct rt_calls *x)
{
	return x->n > 0 && !is_call(&x->call[x->n - 1]) ? x->n - 1 : x->n;
}

size_t
rt_calls_ended(const struct rt_calls *x)
{
	return x->ended;
}

/* ---- reading ---- */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* What was kept is said, up to a byte. */
static void
say(struct rt_calls *x, const char *text, size_t to)
{
	rt_text_bytes(&x->said, text + x->kept, to - x->kept);
	x->kept = x->at = to;
	x->state = SAYING;
}

/* What is read is no call, or none after its arguments. */
static void
give_up(struct rt_calls *x, const char *text)
{
	bool within = x->state > ITEM;	/* a call, which is the last one */

	if (within && is_call(&x->call[x->n - 1])) {
		x->kept = x->at;
		x->ended++;
	} else if (within) {
		x->n--;
	}
	say(x, text, x->at);
}

/* Whether a word comes at `at`; *known: it is there or is not, however the text
 * goes on. */
static bool
has_word(const char *text, size_t n, size_t at, const char *word, bool *known)
{
	size_t len = strlen(word), left = n - at;
	bool same = memcmp(text + at, word, len < left ? len : left) == 0;

	*known = !same || len <= left;
	return same && *known;
}

/* A call of which `len` bytes are read. */
static void
begin_call(struct rt_calls *x, enum calls_state state, size_t len)
{
	struct call *more;

	if (x->n == x->cap) {
		more = realloc(x->call, (2 * x->cap + 4) * sizeof *more);
		if (!more) {
			x->said.failed = true;
			return;
		}
		x->call = more;
		x->cap = 2 * x->cap + 4;
	}
	x->at += len;
	x->call[x->n++] = (struct call){ .name_from = x->at };
	x->state = state;
}

/* Outside of calls.  False: more of the text has to come. */
static bool
read_said(struct rt_calls *x, const char *text, size_t n)
{
	bool known;

	if (is_blank(text[x->at])) {
		x->at++;
		return true;
	}
	if (!x->f->mark) {
		if (text[x->at] == '{' && x->said.n == 0) {
			begin_call(x, KEY, 1);
		} else {
			say(x, text, x->at + 1);
		}
		return true;
	}
	if (has_word(text, n, x->at, x->f->mark, &known)) {
		x->at += strlen(x->f->mark);
		x->state = BEGINNING;
	} else if (known) {
		say(x, text, x->at + 1);
	}
	return known;
}

static bool
is_tool(const struct rt_tools *t, const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		if ((t->choice != RT_TOOLS_NAMED ||
		     strcmp(t->at[i].name, t->named) == 0) &&
		    strlen(t->at[i].name) == n &&
		    memcmp(t->at[i].name, name, n) == 0) {
			return true;
		}
	}
	return false;
}

static bool
is_key(const struct rt_calls *x, const char *text, const char *key)
{
	size_t n = strlen(key);

	return x->key_to - x->from == n &&
	       memcmp(text + x->from, key, n) == 0;
}

/* The first byte of a member's value. */
static bool
begin_value(struct rt_calls *x, const char *text)
{
	struct call *c = &x->call[x->n - 1];
	char byte = text[x->at];

	if (x->f->before_name || is_key(x, text, "arguments") ||
	    is_key(x, text, "parameters")) {
		if (byte != '{' || c->begun) {
			return false;
		}
		c->begun = true;
		c->from = c->sent = x->at;
	} else if (is_key(x, text, "name")) {
		if (byte != '"' || c->name_to > 0) {
			return false;
		}
		c->name_from = c->name_to = x->at + 1;
	}
	x->from = x->at;
	x->quoted = byte == '"';
	x->depth = byte == '{' || byte == '[';
	x->state = IN_VALUE;
	return x->quoted || x->depth > 0 || byte == '-' ||
	       (byte >= '0' && byte <= '9') || byte == 't' || byte == 'f' ||
	       byte == 'n';
}

/* All of a call is there, up to a byte. */
static void
end_call(struct rt_calls *x, size_t to)
{
	x->state = AFTER;
	x->kept = to;
	x->ended++;
}

/* A value has ended before a byte.  False: it is a name that no tool has. */
static bool
end_value(struct rt_calls *x, const char *text, size_t to)
{
	struct call *c = &x->call[x->n - 1];

	x->state = NEXT;
	if (c->begun && !c->over && c->from == x->from) {
		c->to = to;
		c->over = true;
		if (x->f->before_name) {
			end_call(x, to);
		}
	} else if (c->name_from == x->from + 1 && !c->named) {
		c->name_to = to - 1;
		c->named = is_tool(x->tools, text + c->name_from,
				   c->name_to - c->name_from);
		return c->named;
	}
	return true;
}

/* A byte of a value after its first. */
static bool
read_value(struct rt_calls *x, const char *text)
{
	char byte = text[x->at];

	if (x->quoted) {
		x->quoted = x->escaped || byte != '"';
		x->escaped = !x->escaped && byte == '\\';
		if (!x->quoted && x->depth == 0) {
			return end_value(x, text, x->at + 1);
		}
	} else if (x->depth == 0) {
		if (byte == ',' || byte == '}' || is_blank(byte)) {
			x->at--;	/* is looked at once more */
			return end_value(x, text, x->at + 1);
		}
		return byte != '"' && byte != '{' && byte != '[';
	} else if (byte == '"') {
		x->quoted = true;
	} else if (byte == '{' || byte == '[') {
		x->depth++;
	} else if (byte == '}' || byte == ']') {
		if (--x->depth == 0) {
			return end_value(x, text, x->at + 1);
		}
	}
	return true;
}

/* A byte of a call; false: it is none. */
static bool
read_call(struct rt_calls *x, const char *text)
{
	char byte = text[x->at];

	switch (x->state) {
	case IN_KEY:
		if (byte == '"') {
			x->key_to = x->at;
			x->state = COLON;
		}
		return byte != '\\';
	case IN_VALUE:
		return read_value(x, text);
	case KEY:
		if (byte == '"') {
			x->from = x->at + 1;
			x->state = IN_KEY;
			return true;
		}
		break;
	case COLON:
		if (byte == ':') {
			x->state = VALUE;
			return true;
		}
		break;
	case VALUE:
		if (!is_blank(byte)) {
			return begin_value(x, text);
		}
		break;
	default:
		if (byte == ',') {
			x->state = KEY;
			return true;
		}
		if (byte == '}' && is_call(&x->call[x->n - 1])) {
			end_call(x, x->at + 1);
			return true;
		}
		break;
	}
	return is_blank(byte);
}

/* Before the name of a call, if it is there.  False: more has to come. */
static bool
begin_named(struct rt_calls *x, const char *text, size_t n, bool *there)
{
	bool known;

	*there = has_word(text, n, x->at, x->f->before_name, &known);
	if (*there) {
		begin_call(x, NAME, strlen(x->f->before_name));
	}
	return known;
}

static bool
is_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/* A name, an id that may follow, and what is before arguments.  False: more
 * has to come. */
static bool
read_name(struct rt_calls *x, const char *text, size_t n)
{
	struct call *c = &x->call[x->n - 1];
	bool known = true;

	if (is_of_name(text[x->at])) {
		x->at++;
		return true;
	}
	c->name_to = c->name_to ? c->name_to : x->at;
	if (x->f->id && c->name_to == x->at &&
	    has_word(text, n, x->at, x->f->id, &known)) {
		x->at += strlen(x->f->id);
		return true;
	}
	if (!known) {
		return false;
	}
	if (has_word(text, n, x->at, x->f->after_name, &known)) {
		x->at += strlen(x->f->after_name);
		c->named = is_tool(x->tools, text + c->name_from,
				   c->name_to - c->name_from);
		x->state = VALUE;
	}
	if (known && !c->named) {
		give_up(x, text);
	}
	return known;
}

/* After a mark, or in a list of calls.  False: more has to come. */
static bool
read_begin(struct rt_calls *x, const char *text, size_t n)
{
	bool there, known = true;
	char byte = text[x->at];

	if (is_blank(byte)) {
		x->at++;
	} else if (x->f->before_name) {
		known = begin_named(x, text, n, &there);
		if (known && !there) {
			give_up(x, text);
		}
	} else if (x->state == BEGINNING && x->f->list && byte == '[') {
		x->at++;
		x->state = ITEM;
	} else if (byte == '{' && (x->state == ITEM || !x->f->list)) {
		begin_call(x, KEY, 1);
	} else {
		give_up(x, text);
	}
	return known;
}

/* Passes by a word after a call, if it is there; blanks before it were. */
static bool
pass(struct rt_calls *x, const char *text, size_t n, const char *word,
     bool *known)
{
	while (word && is_blank(*word)) {
		word++;
	}
	*known = true;
	if (!word || !has_word(text, n, x->at, word, known)) {
		return false;
	}
	x->kept = x->at += strlen(word);
	return true;
}

/* After what follows a call, or after a list: another call, or what is after
 * all of them.  False: more has to come. */
static bool
read_closed(struct rt_calls *x, const char *text, size_t n)
{
	bool known, there = false;

	if (pass(x, text, n, x->f->ended, &known)) {
		x->state = SAYING;
		return true;
	}
	if (known && x->f->before_name && *x->f->before_name) {
		known = begin_named(x, text, n, &there);
	}
	if (known && !there) {
		x->state = SAYING;
	}
	return known;
}

/* After a call: the end of a list or of a mark, or what is said.  False: more
 * has to come. */
static bool
read_after(struct rt_calls *x, const char *text, size_t n)
{
	enum calls_state next = x->f->ended ? CLOSED : SAYING;
	char byte = text[x->at];
	bool known = true;

	if (is_blank(byte) || (!x->f->mark && byte == ';')) {
		x->at++;
	} else if (x->state == CLOSED) {
		known = read_closed(x, text, n);
	} else if (x->f->list && byte == ',') {
		x->at++;
		x->state = ITEM;
	} else if (x->f->list && byte == ']') {
		x->kept = ++x->at;
		x->state = next;
	} else if (!x->f->mark && byte == '{') {
		begin_call(x, KEY, 1);
	} else if (pass(x, text, n, x->f->closed, &known) || known) {
		x->state = next;
	}
	return known;
}

void
rt_calls_read(struct rt_calls *x, const char *text, size_t n)
{
	bool goes_on = true;

	while (x->at < n && goes_on && !x->said.failed &&
	       (x->tools->several || x->ended == 0)) {
		if (x->state == SAYING) {
			goes_on = read_said(x, text, n);
		} else if (x->state >= AFTER) {
			goes_on = read_after(x, text, n);
		} else if (x->state == NAME) {
			goes_on = read_name(x, text, n);
		} else if (x->state < NAME) {
			goes_on = read_begin(x, text, n);
		} else if (read_call(x, text)) {
			x->at++;
		} else {
			give_up(x, text);
		}
	}
}

void
rt_calls_end(struct rt_calls *x, const char *text, size_t n)
{
	bool must = x->tools->choice > RT_TOOLS_AUTO;
	struct call *c;

	rt_calls_read(x, text, n);
	c = x->n > 0 ? &x->call[x->n - 1] : NULL;
	if (c && !is_call(c)) {
		x->n--;
	} else if (c && !c->over) {
		/* what is cut in the middle is still called */
		c->to = n;
		c->over = true;
	}
	while (x->n > 0 && x->kept < n && is_blank(text[x->kept])) {
		x->kept++;
	}
	/* marks around calls, and calls that were cut early, are left out; what
	 * an answer that has to call begins is nothing else */
	if (x->kept < n && !must && (x->state == SAYING || x->n == 0)) {
		say(x, text, n);
	}
}
