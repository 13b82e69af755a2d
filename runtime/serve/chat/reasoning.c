/*
 * A row for each form of reasoning; see reasoning.h.
 */
#include "runtime/serve/chat/reasoning.h"

#include <stddef.h>
#include <string.h>

static const struct rt_reasoning forms[] = {
	/* and what was distilled from it, QwQ, and Qwen 3 of July 2025 that
	 * thinks */
	{ .name = "deepseek-r1", .open = "<think>", .close = "</think>",
	  .opened = "<think>\n", .closed = "<think>\n\n</think>\n\n",
	  .prompt_opens = true, .by_default = true },
	{ .name = "deepseek-v3.1", .in_vllm = "deepseek-v3",
	  .open = "<think>", .close = "</think>",
	  .opened = "<think>", .closed = "</think>", .prompt_opens = true },
	{ .name = "qwen3", .open = "<think>", .close = "</think>",
	  .opened = "<think>\n", .closed = "<think>\n\n</think>\n\n",
	  .by_default = true, .keeps = true },
	/* Magistral, which is told to think by the system's message */
	{ .name = "mistral", .open = "[THINK]", .close = "[/THINK]",
	  .opened = "[THINK]", .closed = "", .by_default = true },
	{ .name = "gpt-oss", .in_vllm = "openai-gptoss", .channels = true,
	  .opened = "", .by_default = true },
};

static bool
is_named(const char *form, const char *name)
{
	while (*form && (*form == *name || (*form == '-' && *name == '_'))) {
		form++;
		name++;
	}
	return *form == *name;
}

const struct rt_reasoning *
rt_reasoning_named(const char *name, struct rt_error *err)
{
	size_t i;

	for (i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (is_named(forms[i].name, name) ||
		    (forms[i].in_vllm && is_named(forms[i].in_vllm, name))) {
			return &forms[i];
		}
	}
	rt_fail(err, RT_RANGE, RT_NOWHERE, "there is no form of reasoning "
		"'%s': deepseek-r1, deepseek-v3.1, qwen3, mistral and gpt-oss "
		"are there", rt_show_name(name).text);
	return NULL;
}

bool
rt_reasoning_has(const struct rt_reasoning *f, const char *text)
{
	static const char *const of_channels[] = { "<|start|>", "<|channel|>",
		"<|constrain|>", "<|message|>", "<|end|>" };
	size_t i;

	if (!f->channels) {
		return strcmp(text, f->open) == 0 ||
		       strcmp(text, f->close) == 0;
	}
	for (i = 0; i < sizeof of_channels / sizeof *of_channels; i++) {
		if (strcmp(text, of_channels[i]) == 0) {
			return true;
		}
	}
	return false;
}
