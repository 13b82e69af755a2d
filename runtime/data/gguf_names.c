/*
 * What llama.cpp calls the tensors of the models whose names are known, and
 * Hugging Face: see gguf.h.
 */
#include "runtime/data/gguf.h"

#include <stdio.h>
#include <string.h>

/* llama: its rotary embedding has pairs of rows beside each other, so rows of
 * queries and keys were put so. */
const char rt_gguf_families[] = "llama, qwen2 or qwen3";

static const struct {
	const char *name;
	bool turns;
} families[] = { { "llama", true }, { "qwen2", false }, { "qwen3", false } };

enum { NFAMILIES = sizeof(families) / sizeof(families[0]) };

enum turns { NONE, QUERIES, KEYS };

/* Of tensors outside of layers, less ".weight". */
static const struct {
	const char *theirs, *ours;
} outer[] = {
	{ "token_embd", "model.embed_tokens" },
	{ "output_norm", "model.norm" },
	{ "output", "lm_head" },
};

/* Of those of layers, after "blk.N." and before ".weight" or ".bias". */
static const struct {
	const char *theirs, *ours;
	enum turns turns;
} inner[] = {
	{ "attn_norm", "input_layernorm", NONE },
	{ "attn_q", "self_attn.q_proj", QUERIES },
	{ "attn_k", "self_attn.k_proj", KEYS },
	{ "attn_v", "self_attn.v_proj", NONE },
	{ "attn_output", "self_attn.o_proj", NONE },
	{ "attn_q_norm", "self_attn.q_norm", NONE },
	{ "attn_k_norm", "self_attn.k_norm", NONE },
	{ "ffn_norm", "post_attention_layernorm", NONE },
	{ "ffn_gate", "mlp.gate_proj", NONE },
	{ "ffn_up", "mlp.up_proj", NONE },
	{ "ffn_down", "mlp.down_proj", NONE },
};

enum {
	NOUTER = sizeof(outer) / sizeof(outer[0]),
	NINNER = sizeof(inner) / sizeof(inner[0]),
};

bool
rt_gguf_family(const char *architecture, struct rt_gguf_model *m)
{
	size_t i;

	for (i = 0; i < NFAMILIES; i++) {
		if (strcmp(families[i].name, architecture) == 0) {
			m->turns = families[i].turns;
			return true;
		}
	}
	return false;
}

/* Whether the first n bytes of a text are that word. */
static bool
is_word(const char *text, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* Bytes of "blk.N.", or 0; *digits: where N begins, of *n digits. */
static size_t
layer_prefix(const char *name, const char **digits, size_t *n)
{
	static const char begins[] = "blk.";
	const char *at = name + sizeof(begins) - 1;

	if (strncmp(name, begins, sizeof(begins) - 1) != 0) {
		return 0;
	}
	*n = strspn(at, "0123456789");
	*digits = at;
	return *n > 0 && at[*n] == '.' ? sizeof(begins) + *n : 0;
}

int64_t
rt_gguf_name(const struct rt_gguf_model *m, const char *name,
	     char out[RT_GGUF_NAME_BYTES])
{
	const char *digits, *rest, *tail = strrchr(name, '.');
	size_t n, prefix = layer_prefix(name, &digits, &n), part, i;

	snprintf(out, RT_GGUF_NAME_BYTES, "%s", name);
	if (!tail || (size_t)(tail - name) < prefix ||
	    (strcmp(tail, ".weight") != 0 && strcmp(tail, ".bias") != 0)) {
		return 0;
	}
	rest = name + prefix;
	part = (size_t)(tail - rest);
	for (i = 0; prefix == 0 && i < NOUTER; i++) {
		if (is_word(rest, part, outer[i].theirs)) {
			snprintf(out, RT_GGUF_NAME_BYTES, "%s%s",
				 outer[i].ours, tail);
		}
	}
	for (i = 0; prefix > 0 && i < NINNER; i++) {
		if (is_word(rest, part, inner[i].theirs)) {
			snprintf(out, RT_GGUF_NAME_BYTES,
				 "model.layers.%.*s.%s%s", (int)n, digits,
				 inner[i].ours, tail);
			return !m->turns || inner[i].turns == NONE ? 0
				: inner[i].turns == KEYS ? m->key_heads
							 : m->heads;
		}
	}
	return 0;
}
