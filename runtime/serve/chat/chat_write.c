/*
 * The text of a conversation by its template; see chat.h.
 */
#include "runtime/serve/chat/chat_forms.h"

#include <string.h>

struct chat_writer {
	const struct rt_chat *c;
	const struct rt_conversation *v;
	struct rt_text *out;
	size_t system_host;	/* the message that systems are part of */
	size_t tools_host;	/* the one that has the tools, or is after */
	struct rt_text tools;	/* what tells of them */
	size_t last_user;	/* the user's last message; or v->n */
};

static bool
is_role(const struct rt_message *m, const char *role)
{
	return strcmp(m->role, role) == 0;
}

/* "developer" is what newer clients call the system. */
static bool
is_system(const struct rt_message *m)
{
	return is_role(m, "system") || is_role(m, "developer");
}

/* ---- what is wrong ---- */

static enum rt_status
check_message(const struct rt_chat *c, const struct rt_message *m, size_t i,
	      struct rt_error *err)
{
	bool result = is_role(m, "tool");

	if ((result || m->ncalls > 0) && !c->calls) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "message %zu is of a "
			"conversation with tools, which the chat template '%s' "
			"does not have", i + 1, c->name);
	}
	if (m->ncalls > 0 && !is_role(m, "assistant")) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "message %zu has "
			       "tool_calls, and is not the assistant's", i + 1);
	}
	if (!result && !is_system(m) && !is_role(m, "user") &&
	    !is_role(m, "assistant")) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "message %zu has the "
			"role '%s', expected system, user, assistant or tool",
			i + 1, rt_show_name(m->role).text);
	}
	return RT_OK;
}

static enum rt_status
check(const struct chat_writer *w, struct rt_error *err)
{
	const struct rt_conversation *v = w->v;
	enum rt_status status = RT_OK;
	size_t i;

	if (v->n == 0) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "a conversation has "
			       "at least one message, this has none");
	}
	for (i = 0; i < v->n && status == RT_OK; i++) {
		status = check_message(w->c, &v->messages[i], i, err);
	}
	if (status == RT_OK && v->goes_on &&
	    (!is_role(&v->messages[v->n - 1], "assistant") ||
	     v->messages[v->n - 1].ncalls > 0)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "an answer goes on "
			       "in a last message that is the assistant's and "
			       "has no calls");
	}
	if (status == RT_OK && v->ntools > 0 && w->tools_host == v->n &&
	    w->c->calls->tools_in != TOOLS_END_SYSTEM) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the chat template "
			"'%s' tells of tools beside a message of the user, and "
			"there is none", w->c->name);
	}
	if (status == RT_OK && w->tools.n > RT_TOOLS_BYTES) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "'tools' come to "
			"more than %d bytes of the prompt", RT_TOOLS_BYTES);
	}
	return status;
}

/* ---- contents ---- */

static void
add_content(const struct chat_writer *w, const char *s)
{
	static const char blanks[] = " \t\r\n\v\f";
	size_t n;

	s += w->c->trims ? strspn(s, blanks) : 0;
	n = strlen(s);
	while (w->c->trims && n > 0 && strchr(blanks, s[n - 1])) {
		n--;
	}
	rt_text_bytes(w->out, s, n);
}

static void
add_part(const struct chat_writer *w, const struct chat_part *p, const char *s)
{
	rt_text_add(w->out, "%s", p->before);
	add_content(w, s);
	rt_text_add(w->out, "%s", p->after);
}

/* ---- thoughts ---- */

/* A text without line ends around it. */
static void
add_thought(const struct chat_writer *w, const char *s, size_t n)
{
	while (n > 0 && *s == '\n') {
		s++;
		n--;
	}
	while (n > 0 && s[n - 1] == '\n') {
		n--;
	}
	rt_text_add(w->out, "%s", w->v->reasoning->opened);
	rt_text_bytes(w->out, s, n);
	rt_text_add(w->out, "\n%s\n\n", w->v->reasoning->close);
}

/* Where a mark comes last; NULL: nowhere. */
static const char *
find_last(const char *s, const char *mark)
{
	const char *found = NULL;

	while ((s = strstr(s, mark))) {
		found = s;
		s += strlen(mark);
	}
	return found;
}

/*
 * What message i of the assistant says, without what it thought, which is in
 * its text or beside it.  Thoughts that models read again are appended.
 */
static const char *
said_of(const struct chat_writer *w, size_t i)
{
	const struct rt_reasoning *f = w->v->reasoning;
	const struct rt_message *m = &w->v->messages[i];
	const char *thought = m->thought, *end;
	bool is_cut = w->v->goes_on && i + 1 == w->v->n;
	size_t n = thought ? strlen(thought) : 0;

	end = f && !f->channels && !is_cut ? find_last(m->content, f->close)
					   : NULL;
	if (end && !thought) {
		thought = m->content + strspn(m->content, "\n");
		thought += strncmp(thought, f->open, strlen(f->open)) == 0
			? strlen(f->open) : 0;
		n = (size_t)(end - thought);
	}
	if (f && f->keeps && !is_cut && n > 0 && w->last_user < i) {
		add_thought(w, thought, n);
	}
	if (!end) {
		return m->content;
	}
	end += strlen(f->close);
	return end + strspn(end, "\n");
}

/* ---- tools ---- */

static void
add_line(struct rt_text *out, int indent, int depth)
{
	rt_text_add(out, "\n%*s", indent * depth, "");
}

/* JSON of one line as one of several; it has no blank but after , and : */
static void
add_indented(struct rt_text *out, const char *s, size_t n, int indent)
{
	bool quoted = false;
	int depth = 0;
	size_t i;

	for (i = 0; i < n && out->n <= RT_TOOLS_BYTES; i++) {
		bool ends = s[i] == '}' || s[i] == ']';

		if (!quoted && ends && s[i - 1] != '{' && s[i - 1] != '[') {
			add_line(out, indent, depth - 1);
		}
		depth -= !quoted && ends;
		rt_text_bytes(out, &s[i], 1);
		if (quoted) {
			quoted = s[i] != '"';
			if (s[i] == '\\') {
				rt_text_bytes(out, &s[++i], 1);
			}
		} else if (s[i] == '{' || s[i] == '[') {
			depth++;
			if (s[i + 1] != '}' && s[i + 1] != ']') {
				add_line(out, indent, depth);
			}
		} else if (s[i] == ',') {
			add_line(out, indent, depth);
			i++;
		} else {
			quoted = s[i] == '"';
		}
	}
}

/* A tool as a text. */
static void
describe_tool(struct chat_writer *w, const struct rt_tool *t)
{
	const struct rt_call_form *f = w->c->calls;
	size_t bytes = t->schema_to - t->schema_from;

	rt_text_add(&w->tools, "%s%s%s", f->heading[0], t->name,
		    f->heading[1]);
	rt_text_bytes(&w->tools, t->about ? t->about : "", t->about_bytes);
	rt_text_add(&w->tools, "%s", f->heading[2]);
	rt_text_bytes(&w->tools, bytes ? w->v->json + t->schema_from : "{}",
		      bytes ? bytes : 2);
	rt_text_add(&w->tools, "%s", f->ending);
}

/* Text that is too long is not composed to its end. */
static void
compose_tools(struct chat_writer *w)
{
	const struct rt_call_form *f = w->c->calls;
	size_t i;

	rt_text_add(&w->tools, "%s", f->tools.before);
	for (i = 0; i < w->v->ntools && w->tools.n <= RT_TOOLS_BYTES; i++) {
		const struct rt_tool *t = &w->v->tools[i];
		const char *json = w->v->json + t->from;
		size_t n = f->bare ? t->function_to - t->function_from
				   : t->to - t->from;

		json += f->bare ? t->function_from - t->from : 0;
		rt_text_add(&w->tools, "%s", i ? f->tools.between : "");
		if (f->ending) {
			describe_tool(w, t);
		} else if (f->indent == 0) {
			rt_text_bytes(&w->tools, json, n);
		} else {
			add_indented(&w->tools, json, n, f->indent);
		}
	}
	rt_text_add(&w->tools, "%s", f->tools.after);
}

static void
add_tools(const struct chat_writer *w)
{
	rt_text_bytes(w->out, w->tools.at, w->tools.n);
	w->out->failed = w->out->failed || w->tools.failed;
}

/* A call as an object. */
static void
add_object(const struct chat_writer *w, const struct rt_past_call *p)
{
	const struct rt_call_form *f = w->c->calls;

	rt_text_add(w->out, "{\"name\": ");
	rt_text_string(w->out, p->name);
	rt_text_add(w->out, ", \"%s\": ", f->arguments);
	rt_text_bytes(w->out, w->v->json + p->from, p->to - p->from);
	if (f->with_id) {
		rt_text_add(w->out, ", \"id\": ");
		rt_text_string(w->out, p->id ? p->id : "");
	}
	rt_text_add(w->out, "}");
}

/* A call whose name stands before its arguments. */
static void
add_named(const struct chat_writer *w, const struct rt_past_call *p)
{
	const struct rt_call_form *f = w->c->calls;

	rt_text_add(w->out, "%s%s", f->before_name, p->name);
	if (f->with_id && p->id) {
		rt_text_add(w->out, "%s%s", f->id, p->id);
	}
	rt_text_add(w->out, "%s", f->after_name);
	rt_text_bytes(w->out, w->v->json + p->from, p->to - p->from);
	rt_text_add(w->out, "%s", f->closed ? f->closed : "");
}

/* Whether message i comes after results that its turn begins with. */
static bool
follows_results(const struct chat_writer *w, size_t i)
{
	return i > 0 && is_role(&w->v->messages[i - 1], "tool") &&
	       w->c->calls && w->c->calls->goes_on;
}

static void
add_calls(const struct chat_writer *w, size_t at)
{
	const struct rt_call_form *f = w->c->calls;
	const struct rt_message *m = &w->v->messages[at];
	const char *said;
	size_t i;

	rt_text_add(w->out, "%s", follows_results(w, at) ? "" : f->turn.before);
	said = said_of(w, at);
	if (f->says && *said) {
		add_content(w, said);
		rt_text_add(w->out, "%s", f->said);
	}
	rt_text_add(w->out, "%s", f->calls.before);
	for (i = 0; i < m->ncalls; i++) {
		rt_text_add(w->out, "%s", i ? f->calls.between : "");
		(f->before_name ? add_named : add_object)(
			w, &w->v->calls[m->first_call + i]);
	}
	rt_text_add(w->out, "%s%s", f->calls.after, f->turn.after);
}

/* What came of a call: message i. */
static void
add_result(const struct chat_writer *w, size_t i)
{
	const struct rt_call_form *f = w->c->calls;
	const struct rt_message *m = &w->v->messages[i];
	bool first = i == 0 || !is_role(m - 1, "tool");
	bool last = i + 1 == w->v->n || !is_role(m + 1, "tool");

	rt_text_add(w->out, "%s%s", first || !f->one_turn ? f->results.before
		    : f->result.between, f->result.before);
	if (f->result_after_id) {
		rt_text_add(w->out, "%s%s", m->call_id ? m->call_id : "",
			    f->result_after_id);
	}
	if (f->quoted) {
		rt_text_string(w->out, m->content);
	} else {
		add_content(w, m->content);
	}
	if (f->result_id) {
		rt_text_add(w->out, ", \"call_id\": ");
		rt_text_string(w->out, m->call_id ? m->call_id : "");
		rt_text_add(w->out, "}");
	}
	rt_text_add(w->out, "%s%s", f->result.after,
		    last || !f->one_turn ? f->results.after : "");
}

/* ---- messages ---- */

/* The user's first message, or the last one; n: there is none. */
static size_t
find_user(const struct rt_conversation *v, bool last)
{
	size_t i, found = v->n;

	for (i = 0; i < v->n && (last || found == v->n); i++) {
		found = is_role(&v->messages[i], "user") ? i : found;
	}
	return found;
}

static void
add_systems(const struct chat_writer *w)
{
	size_t i;

	for (i = 0; i < w->v->n; i++) {
		if (is_system(&w->v->messages[i])) {
			add_part(w, &w->c->system, w->v->messages[i].content);
		}
	}
}

/* The system's first message where there are tools, also if it says nothing
 * itself. */
static void
add_first_system(const struct chat_writer *w)
{
	const struct rt_call_form *f = w->c->calls;
	const struct rt_message *m = w->v->messages;
	bool has = is_system(m);

	rt_text_add(w->out, "%s%s", w->c->system.before,
		    f->system ? f->system : "");
	if (has) {
		add_content(w, m->content);
	}
	if (f->tools_in == TOOLS_END_SYSTEM) {
		rt_text_add(w->out, "%s", has && !f->joined ? "\n\n" : "");
		add_tools(w);
	}
	rt_text_add(w->out, "%s", w->c->system.after);
}

static void
add_user(const struct chat_writer *w, size_t i)
{
	enum chat_tools_in in = w->c->calls ? w->c->calls->tools_in
					    : TOOLS_END_SYSTEM;
	bool here = w->v->ntools > 0 && i == w->tools_host;

	if (here && in >= TOOLS_BEFORE_FIRST) {
		add_tools(w);
	}
	rt_text_add(w->out, "%s", w->c->user.before);
	if (here && in == TOOLS_BEGIN_USER) {
		add_tools(w);
	}
	if (i == w->system_host) {
		add_systems(w);
	}
	add_content(w, w->v->messages[i].content);
	rt_text_add(w->out, "%s", w->c->user.after);
}

/* A message of the assistant that calls nothing. */
static void
add_said(const struct chat_writer *w, size_t i)
{
	const struct chat_part *p = &w->c->assistant;
	bool ended = !w->v->goes_on || i + 1 < w->v->n;

	rt_text_add(w->out, "%s", follows_results(w, i) ? "" : p->before);
	add_content(w, said_of(w, i));
	rt_text_add(w->out, "%s", ended ? p->after : "");
}

static void
add_message(const struct chat_writer *w, size_t i)
{
	const struct rt_message *m = &w->v->messages[i];

	if (is_role(m, "user")) {
		add_user(w, i);
	} else if (is_role(m, "tool")) {
		add_result(w, i);
	} else if (is_role(m, "assistant")) {
		if (m->ncalls > 0) {
			add_calls(w, i);
		} else {
			add_said(w, i);
		}
	} else if (w->system_host == w->v->n) {
		add_part(w, &w->c->system, m->content);
	}
}

/* What begins an answer. */
static void
add_answer(const struct chat_writer *w)
{
	const struct rt_conversation *v = w->v;
	const struct rt_reasoning *f = v->reasoning;
	const char *answer = w->c->answer;
	size_t n = strlen(answer), close = f && f->close ? strlen(f->close) : 0;

	/* a template that has no thoughts by itself closes them there */
	if (close && n >= close &&
	    strcmp(answer + n - close, f->close) == 0) {
		n -= close;
	}
	rt_text_bytes(w->out, answer, n);
	if (f) {
		rt_text_add(w->out, "%s", !v->thinks ? f->closed
			    : f->prompt_opens || v->opens ? f->opened : "");
	}
}

bool
rt_chat_is_inside(const struct rt_chat *c, const struct rt_conversation *v)
{
	const struct chat_writer w = { .c = c, .v = v };

	return v->reasoning && v->thinks && !v->no_answer &&
	       !v->reasoning->channels &&
	       (v->reasoning->prompt_opens || v->opens) &&
	       !follows_results(&w, v->n);
}

static void
write_all(const struct chat_writer *w)
{
	const struct rt_conversation *v = w->v;
	const struct rt_call_form *f = w->c->calls;
	bool tells = v->ntools > 0 && w->c->system_in == OWN &&
		     (f->system || f->tools_in == TOOLS_END_SYSTEM);
	size_t i;

	rt_text_add(w->out, "%s", w->c->begin ? w->c->begin : "");
	if (w->c->after_effort) {
		rt_text_add(w->out, "%s%s", v->effort ? v->effort : "medium",
			    w->c->after_effort);
	}
	if (tells) {
		add_first_system(w);
	}
	for (i = tells && is_system(v->messages); i < v->n; i++) {
		add_message(w, i);
	}
	if (!v->no_answer && !follows_results(w, v->n)) {
		add_answer(w);
	}
	rt_text_add(w->out, "%s", v->calls_next && f->mark ? f->mark : "");
}

enum rt_status
rt_chat_write(const struct rt_chat *c, const struct rt_conversation *v,
	      struct rt_text *out, struct rt_error *err)
{
	struct chat_writer w = { .c = c, .v = v, .out = out,
		.tools.alloc = rt_alloc_or_libc(NULL) };
	enum rt_status status;

	w.last_user = find_user(v, true);
	w.system_host = c->system_in == OWN ? v->n
		: find_user(v, c->system_in == LAST_USER);
	w.tools_host = find_user(v, c->calls && c->calls->tools_in ==
				    TOOLS_BEFORE_USER);
	if (v->ntools > 0) {
		compose_tools(&w);
	}
	status = check(&w, err);
	if (status == RT_OK) {
		write_all(&w);
	}
	rt_text_release(&w.tools);
	return status == RT_OK && out->failed ? rt_no_memory(err, NULL)
					      : status;
}
