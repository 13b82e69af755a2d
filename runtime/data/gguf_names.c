/*
 * What llama.cpp calls the tensors of the models whose names are known, and
 * Hugging Face: see gguf.h.
 */
#include "runtime/data/gguf.h"

#include <stdio.h>
#include <string.h>

/* llama: its rotary embedding has pairs of rows beside each other, so rows of
 * queries and keys were put so.  With experts it is Mixtral. */
const char rt_gguf_families[] = "llama, qwen2, qwen3 or qwen3moe";

static const struct rt_gguf_family families[] = {
	{ "llama", true, RT_GGUF_MIXTRAL, { "llama", "LlamaForCausalLM" },
	  { "mixtral", "MixtralForCausalLM" } },
	{ "qwen2", false, RT_GGUF_ANY, { "qwen2", "Qwen2ForCausalLM" },
	  { NULL, NULL } },
	{ "qwen3", false, RT_GGUF_ANY, { "qwen3", "Qwen3ForCausalLM" },
	  { NULL, NULL } },
	{ "qwen3moe", false, RT_GGUF_QWEN, { NULL, NULL },
	  { "qwen3_moe", "Qwen3MoeForCausalLM" } },
};

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
	enum rt_gguf_experts of;
} inner[] = {
	{ "attn_norm", "input_layernorm", NONE, RT_GGUF_ANY },
	{ "attn_q", "self_attn.q_proj", QUERIES, RT_GGUF_ANY },
	{ "attn_k", "self_attn.k_proj", KEYS, RT_GGUF_ANY },
	{ "attn_v", "self_attn.v_proj", NONE, RT_GGUF_ANY },
	{ "attn_output", "self_attn.o_proj", NONE, RT_GGUF_ANY },
	{ "attn_q_norm", "self_attn.q_norm", NONE, RT_GGUF_ANY },
	{ "attn_k_norm", "self_attn.k_norm", NONE, RT_GGUF_ANY },
	{ "ffn_norm", "post_attention_layernorm", NONE, RT_GGUF_ANY },
	{ "ffn_gate", "mlp.gate_proj", NONE, RT_GGUF_ANY },
	{ "ffn_up", "mlp.up_proj", NONE, RT_GGUF_ANY },
	{ "ffn_down", "mlp.down_proj", NONE, RT_GGUF_ANY },
	{ "ffn_gate_inp", "block_sparse_moe.gate", NONE, RT_GGUF_MIXTRAL },
	{ "ffn_gate_exps", "block_sparse_moe.experts.*.w1", NONE,
	  RT_GGUF_MIXTRAL },
	{ "ffn_down_exps", "block_sparse_moe.experts.*.w2", NONE,
	  RT_GGUF_MIXTRAL },
	{ "ffn_up_exps", "block_sparse_moe.experts.*.w3", NONE,
	  RT_GGUF_MIXTRAL },
	{ "ffn_gate_inp", "mlp.gate", NONE, RT_GGUF_QWEN },
	{ "ffn_gate_exps", "mlp.experts.*.gate_proj", NONE, RT_GGUF_QWEN },
	{ "ffn_up_exps", "mlp.experts.*.up_proj", NONE, RT_GGUF_QWEN },
	{ "ffn_down_exps", "mlp.experts.*.down_proj", NONE, RT_GGUF_QWEN },
};

enum {
	NOUTER = sizeof(outer) / sizeof(outer[0]),
	NINNER = sizeof(inner) / sizeof(inner[0]),
};

const struct rt_gguf_family *
rt_gguf_family(const char *architecture)
{
	size_t i;

	for (i = 0; i < NFAMILIES; i++) {
		if (strcmp(families[i].name, architecture) == 0) {
			return &families[i];
		}
	}
	return NULL;
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

/* The row of a layer's tensor that has such a name, or NINNER. */
static size_t
find_inner(const struct rt_gguf_model *m, const char *part, size_t n)
{
	enum rt_gguf_experts of = m->family->experts;
	size_t i;

	for (i = 0; i < NINNER; i++) {
		if (is_word(part, n, inner[i].theirs) &&
		    (inner[i].of == RT_GGUF_ANY || inner[i].of == of)) {
			break;
		}
	}
	return i;
}

void
rt_gguf_name(const struct rt_gguf_model *m, const char *name,
	     struct rt_gguf_name *out)
{
	const char *digits, *rest, *tail = strrchr(name, '.');
	size_t n, prefix = layer_prefix(name, &digits, &n), part, i;

	memset(out, 0, sizeof(*out));
	snprintf(out->text, sizeof(out->text), "%s", name);
	if (!tail || (size_t)(tail - name) < prefix ||
	    (strcmp(tail, ".weight") != 0 && strcmp(tail, ".bias") != 0)) {
		return;
	}
	rest = name + prefix;
	part = (size_t)(tail - rest);
	for (i = 0; prefix == 0 && i < NOUTER; i++) {
		if (is_word(rest, part, outer[i].theirs)) {
			snprintf(out->text, sizeof(out->text), "%s%s",
				 outer[i].ours, tail);
		}
	}
	i = prefix > 0 ? find_inner(m, rest, part) : NINNER;
	if (i == NINNER) {
		return;
	}
	snprintf(out->text, sizeof(out->text), "model.layers.%.*s.%s%s",
		 (int)n, digits, inner[i].ours, tail);
	out->experts = strchr(inner[i].ours, '*') != NULL;
	if (m->family->turns && inner[i].turns != NONE) {
		out->heads = inner[i].turns == KEYS ? m->key_heads : m->heads;
	}
}
