/*
 * Reads what requests say of reasoning; see request_reader.h.
 */
#include "runtime/serve/api/request_reader.h"

#include <string.h>

static bool
lacks_form(struct request_reader *x)
{
	return rt_request_wrong(x, "of servers that tell thoughts apart: start "
				   "this one with --reasoning, or leave it "
				   "out");
}

/* Of two fields that say whether to think, none may say the opposite. */
static bool
set_thinks(struct request_reader *x, bool yes)
{
	struct rt_request *r = x->r;

	if (r->thinks_field == x->name) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is there "
				    "twice", x->name);
	}
	if (r->thinks_field && r->thinks != yes) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' and '%s' "
			"say the opposite of reasoning", x->name,
			r->thinks_field);
	}
	r->thinks_field = x->name;
	r->thinks = yes;
	return true;
}

/* OpenAI's levels; those that models read are `low`, `medium` and `high`. */
bool
rt_request_effort(struct request_reader *x)
{
	static const char *const levels[][2] = {
		{ "none", NULL }, { "minimal", "low" }, { "low", "low" },
		{ "medium", "medium" }, { "high", "high" },
		{ "xhigh", "high" },
	};
	const char *text;
	size_t i = 0, n = sizeof levels / sizeof *levels;

	if (!rt_json_string(&x->j, &text)) {
		return false;
	}
	while (i < n && strcmp(text, levels[i][0]) != 0) {
		i++;
	}
	if (i == n) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is none, "
			"minimal, low, medium, high or xhigh, not '%s'",
			x->name, rt_show_name(text).text);
	}
	if (!x->codec->reasoning) {
		return i == 0 || lacks_form(x);
	}
	x->r->effort = levels[i][1];
	return set_thinks(x, i > 0);
}

/* One of templates' own variables, as Qwen's and DeepSeek's call them.  What is
 * wrong with it is said by its own name. */
static bool
read_kwarg(struct request_reader *x, const char *key)
{
	static const char *const names[] = {
		"chat_template_kwargs.reasoning_effort",
		"chat_template_kwargs.enable_thinking",
		"chat_template_kwargs.thinking",
	};
	const char *field = x->name, *start = x->start;
	size_t i = 0, n = sizeof names / sizeof *names;
	bool yes, ok;

	while (i < n && strcmp(strchr(names[i], '.') + 1, key) != 0) {
		i++;
	}
	if (i == n) {
		return rt_json_fail(&x->j, RT_RANGE, x->start, "'%s' is of "
			"enable_thinking, thinking and reasoning_effort here, "
			"not '%s'", x->name, rt_show_name(key).text);
	}
	x->name = names[i];
	rt_json_peek(&x->j);
	x->start = x->j.text + x->j.at;
	ok = i == 0 ? rt_request_effort(x)
		    : rt_json_bool(&x->j, &yes) && set_thinks(x, yes);
	if (ok) {
		x->name = field;
		x->start = start;
	}
	return ok;
}

bool
rt_request_template_kwargs(struct request_reader *x)
{
	const char *key;
	size_t i = 0;
	bool ok = rt_json_open(&x->j, '{');

	while (ok && rt_json_more(&x->j, '}', &i)) {
		ok = rt_json_key(&x->j, &key);
		if (ok && !x->codec->reasoning) {
			return lacks_form(x);
		}
		ok = ok && (rt_json_null(&x->j) || read_kwarg(x, key));
	}
	return ok && x->j.status == RT_OK;
}

bool
rt_request_shows_reasoning(struct request_reader *x)
{
	return rt_json_bool(&x->j, &x->r->shows_reasoning) &&
	       (x->r->shows_reasoning || x->codec->reasoning ||
		lacks_form(x));
}

/*
 * An answer that has to call begins with a call, and one that goes on in a
 * message thinks no more.  Where the prompt cannot close thoughts, they may
 * come though nobody asked for them.
 */
bool
rt_request_check_reasoning(struct request_reader *x)
{
	const struct rt_reasoning *f = x->codec->reasoning;
	struct rt_request *r = x->r;

	if (!f) {
		return true;
	}
	r->thinks = r->thinks_field ? r->thinks : f->by_default;
	if (!r->thinks && !f->closed) {
		return rt_json_fail(&x->j, RT_RANGE, NULL, "'%s' asks for no "
			"reasoning, and this model always reasons",
			r->thinks_field);
	}
	if (rt_request_must_call(r) || r->goes_on) {
		r->thinks = false;
		return true;
	}
	r->reasoning = r->thinks || !*f->closed ? f : NULL;
	return true;
}
