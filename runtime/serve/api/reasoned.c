/*
 * Thoughts and what is said in the text of an answer; see reasoned.h.
 */
#include "runtime/serve/api/reasoned.h"

#include <stdlib.h>
#include <string.h>

enum place {
	BEGINNING,	/* before a mark that may open thoughts */
	THINKING,
	CLOSED,		/* after thoughts, before what is said */
	SAYING,
	/* of channels */
	HEAD,		/* of a message, to the mark that its content follows */
	CONTENT,
};

struct rt_reasoned {
	const struct rt_reasoning *f;
	enum place place;
	bool inside;
	bool thinks;		/* thoughts have begun */
	bool is_final;		/* the channel of the message */
	size_t at, kept;	/* bytes read, and those that have a place */
	struct rt_text thought, said;
};

struct rt_reasoned *
rt_reasoned_open(const struct rt_reasoning *f, bool inside)
{
	struct rt_reasoned *x = calloc(1, sizeof *x);

	if (x) {
		x->f = f;
		x->place = f->channels ? HEAD : BEGINNING;
		x->inside = x->thinks = inside;
		x->thought.alloc = x->said.alloc = rt_alloc_or_libc(NULL);
	}
	return x;
}

void
rt_reasoned_free(struct rt_reasoned *x)
{
	if (x) {
		rt_text_release(&x->thought);
		rt_text_release(&x->said);
		free(x);
	}
}

const struct rt_text *
rt_reasoned_thought(const struct rt_reasoned *x)
{
	return &x->thought;
}

const struct rt_text *
rt_reasoned_said(const struct rt_reasoned *x)
{
	return &x->said;
}

bool
rt_reasoned_is_over(const struct rt_reasoned *x)
{
	return x->place == CLOSED || x->place == SAYING ||
	       (x->place == CONTENT && x->is_final);
}

bool
rt_reasoned_thinks(const struct rt_reasoned *x)
{
	return x->thinks;
}

void
rt_reasoned_say(struct rt_reasoned *x, size_t from)
{
	x->said.n = 0;
	x->kept = x->at = from;
	x->place = SAYING;
}

/* ---- reading ---- */

/* Whether a mark comes next; *known: it does or does not, however the text goes
 * on. */
static bool
has_mark(const struct rt_reasoned *x, const char *text, size_t n,
	 const char *mark, bool *known)
{
	size_t len = strlen(mark), left = n - x->at;
	bool same = memcmp(text + x->at, mark, len < left ? len : left) == 0;

	*known = !same || len <= left;
	return same && *known;
}

/* What was kept goes to a text, up to a byte. */
static void
give(struct rt_reasoned *x, struct rt_text *to, const char *text, size_t end)
{
	rt_text_bytes(to, text + x->kept, end - x->kept);
	x->kept = x->at = end;
}

static void
pass(struct rt_reasoned *x, size_t bytes)
{
	x->kept = x->at += bytes;
}

/* Line ends that may be of a mark are kept. */
static bool
read_thought(struct rt_reasoned *x, const char *text, size_t n)
{
	bool known;

	if (text[x->at] == '\n') {
		if (x->thought.n == 0) {
			pass(x, 1);
		} else {
			x->at++;
		}
		return true;
	}
	if (has_mark(x, text, n, x->f->close, &known)) {
		pass(x, strlen(x->f->close));
		x->place = CLOSED;
	} else if (known) {
		give(x, &x->thought, text, x->at + 1);
	}
	return known;
}

/* Blanks before thoughts are of no account, and before all else are said. */
static bool
read_beginning(struct rt_reasoned *x, const char *text, size_t n)
{
	bool known = true;

	if (strchr(" \t\r\n", text[x->at]) && text[x->at]) {
		x->at++;
	} else if (has_mark(x, text, n, x->f->open, &known)) {
		pass(x, strlen(x->f->open));
		x->place = THINKING;
		x->thinks = true;
	} else if (known) {
		x->at = x->kept;
		x->place = x->inside ? THINKING : SAYING;
	}
	return known;
}

/* ---- channels ---- */

/* Whether the head of a message, n bytes, names the channel of what is said. */
static bool
names_final(const char *head, size_t n)
{
	static const char mark[] = "<|channel|>", name[] = "final";
	size_t len = sizeof mark - 1 + sizeof name - 1, i;

	for (i = 0; i + len <= n; i++) {
		if (memcmp(head + i, mark, sizeof mark - 1) == 0) {
			return memcmp(head + i + sizeof mark - 1, name,
				      sizeof name - 1) == 0 &&
			       (i + len == n || head[i + len] == ' ' ||
				head[i + len] == '<');
		}
	}
	return false;
}

/* Whether an answer begins with a head, as far as that is *known. */
static bool
has_head(const struct rt_reasoned *x, const char *text, size_t n, bool *known)
{
	static const char *const begin[] = { "<|channel|>", "<|message|>",
		"<|start|>", " to=" };
	bool has = false, is_known = true;
	size_t i;

	for (i = 0; i < sizeof begin / sizeof *begin && !has; i++) {
		has = has_mark(x, text, n, begin[i], known);
		is_known = is_known && *known;
	}
	*known = has || is_known;
	return has;
}

static bool
read_head(struct rt_reasoned *x, const char *text, size_t n)
{
	static const char mark[] = "<|message|>";
	bool known;

	/* an answer that has no head says what it has */
	if (x->at == 0 && !has_head(x, text, n, &known)) {
		x->place = known ? CONTENT : HEAD;
		x->is_final = known;
		return known;
	}
	if (has_mark(x, text, n, mark, &known)) {
		x->is_final = names_final(text + x->kept, x->at - x->kept);
		pass(x, sizeof mark - 1);
		x->place = CONTENT;
		x->thinks = x->thinks || !x->is_final;
		if (!x->is_final && x->thought.n > 0) {
			rt_text_add(&x->thought, "\n");
		}
	} else if (known) {
		x->at++;
	} else {
		return false;
	}
	return true;
}

static bool
read_content(struct rt_reasoned *x, const char *text, size_t n)
{
	static const char *const marks[] = { "<|end|>", "<|start|>" };
	bool known, all = true;
	size_t i;

	for (i = 0; i < 2; i++) {
		if (has_mark(x, text, n, marks[i], &known)) {
			pass(x, strlen(marks[i]));
			x->place = HEAD;
			x->is_final = false;
			return true;
		}
		all = all && known;
	}
	if (all) {
		give(x, x->is_final ? &x->said : &x->thought, text, x->at + 1);
	}
	return all;
}

/* ---- both ---- */

/* What is left at the end, which is no mark. */
static void
end(struct rt_reasoned *x, const char *text, size_t n)
{
	while (x->place == THINKING && n > x->kept && text[n - 1] == '\n') {
		n--;
	}
	if (x->place == HEAD && x->at == 0) {
		give(x, &x->said, text, n);	/* it was not to be one */
	} else if (x->place == BEGINNING || x->place == SAYING) {
		give(x, x->inside ? &x->thought : &x->said, text, n);
	} else if (x->place == THINKING ||
		   (x->place == CONTENT && !x->is_final)) {
		give(x, &x->thought, text, n);
	} else if (x->place == CONTENT) {
		give(x, &x->said, text, n);
	}
}

void
rt_reasoned_read(struct rt_reasoned *x, const char *text, size_t n, bool ends)
{
	bool goes_on = true;

	while (x->at < n && goes_on && !x->said.failed && !x->thought.failed) {
		switch (x->place) {
		case BEGINNING:
			goes_on = read_beginning(x, text, n);
			break;
		case THINKING:
			goes_on = read_thought(x, text, n);
			break;
		case CLOSED:
			if (text[x->at] == '\n') {
				pass(x, 1);
			} else {
				x->place = SAYING;
			}
			break;
		case SAYING:
			give(x, &x->said, text, n);
			break;
		case HEAD:
			goes_on = read_head(x, text, n);
			break;
		case CONTENT:
			goes_on = read_content(x, text, n);
			break;
		}
	}
	if (ends && n > x->kept) {
		end(x, text, n);
	}
}
