/*
 * Chat templates.  Each row is what the tokenizer_config.json of models that
 * are named so makes of a conversation without tools.
 */
#include "runtime/serve/chat.h"

#include <string.h>

/* Where the system's message goes, for models that have no such role. */
enum chat_system { OWN, FIRST_USER, LAST_USER };

struct chat_part {
	const char *before, *after;
};

struct rt_chat {
	const char *name;
	const char *mark;	/* a token that no other family has, or NULL */
	const char *sign;	/* of a template in Jinja; NULL: the mark */
	const char *begin;	/* NULL: what the tokenizer puts before */
	enum chat_system system_in;
	struct chat_part system, user, assistant;
	const char *answer;	/* before the next answer */
	bool trims;		/* blanks around a message are left out */
};

/* The first whose sign or mark is found is taken: that of Phi-4 stands beside
 * ChatML's, and that of Llama 2 beside Mistral's. */
static const struct rt_chat chats[] = {
	{ "phi-4", "<|im_sep|>", NULL, NULL, OWN,
	  { "<|im_start|>system<|im_sep|>", "<|im_end|>" },
	  { "<|im_start|>user<|im_sep|>", "<|im_end|>" },
	  { "<|im_start|>assistant<|im_sep|>", "<|im_end|>" },
	  "<|im_start|>assistant<|im_sep|>", false },
	{ "chatml", "<|im_start|>", NULL, NULL, OWN,
	  { "<|im_start|>system\n", "<|im_end|>\n" },
	  { "<|im_start|>user\n", "<|im_end|>\n" },
	  { "<|im_start|>assistant\n", "<|im_end|>\n" },
	  "<|im_start|>assistant\n", false },
	{ "llama-3", "<|start_header_id|>", NULL, "<|begin_of_text|>", OWN,
	  { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>" },
	  { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>" },
	  { "<|start_header_id|>assistant<|end_header_id|>\n\n",
	    "<|eot_id|>" },
	  "<|start_header_id|>assistant<|end_header_id|>\n\n", true },
	{ "gemma", "<start_of_turn>", NULL, "<bos>", FIRST_USER,
	  { "", "\n\n" },
	  { "<start_of_turn>user\n", "<end_of_turn>\n" },
	  { "<start_of_turn>model\n", "<end_of_turn>\n" },
	  "<start_of_turn>model\n", true },
	{ "deepseek", "<\xef\xbd\x9cUser\xef\xbd\x9c>", NULL,
	  "<\xef\xbd\x9c" "begin\xe2\x96\x81of\xe2\x96\x81sentence"
	  "\xef\xbd\x9c>", OWN,
	  { "", "" },
	  { "<\xef\xbd\x9cUser\xef\xbd\x9c>", "" },
	  { "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>",
	    "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence"
	    "\xef\xbd\x9c>" },
	  "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>", false },
	/* its marks are no tokens: an answer ends where the next turn begins */
	{ "llama-2", NULL, "<<SYS>>", "", FIRST_USER,
	  { "<<SYS>>\n", "\n<</SYS>>\n\n" },
	  { "<s>[INST] ", " [/INST]" },
	  { " ", " </s>" },
	  "", true },
	{ "mistral", "[INST]", NULL, "<s>", LAST_USER,
	  { "", "\n\n" },
	  { "[INST] ", "[/INST]" },
	  { " ", "</s>" },
	  "", false },
	{ "none", NULL, NULL, NULL, OWN,
	  { "", "\n" }, { "", "\n" }, { "", "\n" }, "", false },
};

#define NCHATS (sizeof chats / sizeof *chats)

static const char *const stops[] = {
	"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
	"<|end_of_text|>", "<end_of_turn>", "<eos>", "</s>",
	"<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
};

const struct rt_chat *
rt_chat_named(const char *name, struct rt_error *err)
{
	size_t i;

	for (i = 0; i < NCHATS; i++) {
		if (strcmp(chats[i].name, name) == 0) {
			return &chats[i];
		}
	}
	rt_fail(err, RT_RANGE, RT_NOWHERE, "there is no chat template '%s': "
		"chatml, phi-4, llama-2, llama-3, mistral, gemma, deepseek and "
		"none are there", rt_show_name(name).text);
	return NULL;
}

const struct rt_chat *
rt_chat_of(const struct rt_tokenizer *t)
{
	const char *jinja = rt_tokenizer_chat(t);
	size_t i, found = NCHATS - 1;

	for (i = 0; i < found && jinja; i++) {
		const char *sign = chats[i].sign ? chats[i].sign
						 : chats[i].mark;

		found = strstr(jinja, sign) ? i : found;
	}
	for (i = 0; i < found && found == NCHATS - 1; i++) {
		if (chats[i].mark && rt_tokenizer_id(t, chats[i].mark) >= 0) {
			found = i;
		}
	}
	return &chats[found];
}

const char *
rt_chat_name(const struct rt_chat *c)
{
	return c->name;
}

bool
rt_chat_is_framed(const struct rt_chat *c)
{
	return !c->begin;
}

const char *
rt_chat_stop(size_t i)
{
	return i < sizeof stops / sizeof *stops ? stops[i] : NULL;
}

/* ---- writing ---- */

static void
add_content(const struct rt_chat *c, const char *s, struct rt_text *out)
{
	static const char blanks[] = " \t\r\n\v\f";
	size_t n;

	s += c->trims ? strspn(s, blanks) : 0;
	n = strlen(s);
	while (c->trims && n > 0 && strchr(blanks, s[n - 1])) {
		n--;
	}
	rt_text_bytes(out, s, n);
}

static void
add_part(const struct rt_chat *c, const struct chat_part *p, const char *s,
	 struct rt_text *out)
{
	rt_text_add(out, "%s", p->before);
	add_content(c, s, out);
	rt_text_add(out, "%s", p->after);
}

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

static enum rt_status
check_messages(const struct rt_message *m, size_t n, struct rt_error *err)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (!is_system(&m[i]) && !is_role(&m[i], "user") &&
		    !is_role(&m[i], "assistant")) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "message "
				"%zu has the role '%s', expected system, user "
				"or assistant", i + 1,
				rt_show_name(m[i].role).text);
		}
	}
	return n > 0 ? RT_OK : rt_fail(err, RT_RANGE, RT_NOWHERE, "a "
		"conversation has at least one message, this has none");
}

/* The message of the user that system messages go into; n: there is none. */
static size_t
host_of_system(const struct rt_chat *c, const struct rt_message *m, size_t n)
{
	size_t i, host = n;

	for (i = 0; i < n && c->system_in != OWN; i++) {
		if (is_role(&m[i], "user")) {
			host = i;
			if (c->system_in == FIRST_USER) {
				break;
			}
		}
	}
	return host;
}

static void
add_systems(const struct rt_chat *c, const struct rt_message *m, size_t n,
	    struct rt_text *out)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (is_system(&m[i])) {
			add_part(c, &c->system, m[i].content, out);
		}
	}
}

enum rt_status
rt_chat_write(const struct rt_chat *c, const struct rt_message *m, size_t n,
	      struct rt_text *out, struct rt_error *err)
{
	enum rt_status status = check_messages(m, n, err);
	size_t i, host = host_of_system(c, m, n);

	if (status != RT_OK) {
		return status;
	}
	rt_text_add(out, "%s", c->begin ? c->begin : "");
	for (i = 0; i < n; i++) {
		if (is_role(&m[i], "user")) {
			rt_text_add(out, "%s", c->user.before);
			if (i == host) {
				add_systems(c, m, n, out);
			}
			add_content(c, m[i].content, out);
			rt_text_add(out, "%s", c->user.after);
		} else if (is_role(&m[i], "assistant")) {
			add_part(c, &c->assistant, m[i].content, out);
		} else if (host == n) {
			add_part(c, &c->system, m[i].content, out);
		}
	}
	rt_text_add(out, "%s", c->answer);
	return out->failed ? rt_no_memory(err, NULL) : RT_OK;
}
