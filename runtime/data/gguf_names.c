/*
 * What llama.cpp calls the tensors of the models whose names are known, and
 * Hugging Face: see gguf.h.
 */
#include "runtime/data/gguf.h"

#include <stdio.h>
#include <string.h>

const char rt_gguf_families[] = "llama, qwen2, qwen3, qwen2moe, qwen3moe, "
				"gemma, gemma2, gemma3, granite, olmo2, phi3, "
				"starcoder2, deepseek2, gpt-oss, gpt2 or "
				"gptneox";

/* Where pairs of rows that are rotated together stand beside each other, rows
 * of queries and keys were put so.  llama with experts is Mixtral. */
static const struct rt_gguf_family families[] = {
	{ "llama", RT_GGUF_LLAMA, true, false,
	  { "llama", "LlamaForCausalLM" },
	  { "mixtral", "MixtralForCausalLM" } },
	{ "qwen2", RT_GGUF_QWEN2, false, false,
	  { "qwen2", "Qwen2ForCausalLM" }, { NULL, NULL } },
	{ "qwen3", RT_GGUF_QWEN3, false, false,
	  { "qwen3", "Qwen3ForCausalLM" }, { NULL, NULL } },
	{ "qwen2moe", RT_GGUF_QWEN2MOE, false, false, { NULL, NULL },
	  { "qwen2_moe", "Qwen2MoeForCausalLM" } },
	{ "qwen3moe", RT_GGUF_QWEN3MOE, false, false, { NULL, NULL },
	  { "qwen3_moe", "Qwen3MoeForCausalLM" } },
	{ "gemma", RT_GGUF_GEMMA, false, true,
	  { "gemma", "GemmaForCausalLM" }, { NULL, NULL } },
	{ "gemma2", RT_GGUF_GEMMA2, false, true,
	  { "gemma2", "Gemma2ForCausalLM" }, { NULL, NULL } },
	{ "gemma3", RT_GGUF_GEMMA3, false, true,
	  { "gemma3_text", "Gemma3ForCausalLM" }, { NULL, NULL } },
	{ "granite", RT_GGUF_GRANITE, true, false,
	  { "granite", "GraniteForCausalLM" }, { NULL, NULL } },
	{ "olmo2", RT_GGUF_OLMO2, false, false,
	  { "olmo2", "Olmo2ForCausalLM" }, { NULL, NULL } },
	{ "phi3", RT_GGUF_PHI3, false, false,
	  { "phi3", "Phi3ForCausalLM" }, { NULL, NULL } },
	{ "starcoder2", RT_GGUF_STARCODER2, false, false,
	  { "starcoder2", "Starcoder2ForCausalLM" }, { NULL, NULL } },
	/* or DeepSeek-V3, which its keys tell */
	{ "deepseek2", RT_GGUF_DEEPSEEK2, false, false, { NULL, NULL },
	  { "deepseek_v2", "DeepseekV2ForCausalLM" } },
	{ "gpt-oss", RT_GGUF_GPT_OSS, false, false, { NULL, NULL },
	  { "gpt_oss", "GptOssForCausalLM" } },
	{ "gpt2", RT_GGUF_GPT2, false, false,
	  { "gpt2", "GPT2LMHeadModel" }, { NULL, NULL } },
	{ "gptneox", RT_GGUF_GPTNEOX, false, false,
	  { "gpt_neox", "GPTNeoXForCausalLM" }, { NULL, NULL } },
};

enum { NFAMILIES = sizeof(families) / sizeof(families[0]) };

/* What rows of a tensor are: any, of heads that may take turns, the only one,
 * all queries before all keys and all values; or which part of what is read in
 * another order they are. */
enum rows { ANY, QUERIES, KEYS, ONE, THIRDS, PARTS,
	    KEYS_OF = PARTS + RT_GGUF_KEYS, VALUES_OF, GATES, GATED, TURNED };

/* Of tensors outside of layers, less ".weight". */
static const struct {
	const char *theirs, *ours;
	int of; /* families whose tensor has that name */
} outer[] = {
	{ "token_embd", "transformer.wte", RT_GGUF_GPT2 },
	{ "position_embd", "transformer.wpe", RT_GGUF_GPT2 },
	{ "output_norm", "transformer.ln_f", RT_GGUF_GPT2 },
	{ "token_embd", "gpt_neox.embed_in", RT_GGUF_GPTNEOX },
	{ "output_norm", "gpt_neox.final_layer_norm", RT_GGUF_GPTNEOX },
	{ "output", "embed_out", RT_GGUF_GPTNEOX },
	{ "token_embd", "model.embed_tokens", RT_GGUF_ALL },
	{ "output_norm", "model.norm", RT_GGUF_ALL },
	{ "output", "lm_head", RT_GGUF_ALL },
};

#define FOUR_NORMS (RT_GGUF_GEMMA2 | RT_GGUF_GEMMA3)
#define NORMS_AFTER (FOUR_NORMS | RT_GGUF_OLMO2 | RT_GGUF_GPT_OSS)
#define PLAIN_EXPERTS \
	(RT_GGUF_QWEN2MOE | RT_GGUF_QWEN3MOE | RT_GGUF_DEEPSEEK2)

/* Of those of layers, after "blk.N." and before ".weight" or ".bias".  Where
 * ours ends in a point, nothing comes after it, or "_bias". */
static const struct {
	const char *theirs, *ours;
	enum rows rows;
	int of; /* families whose tensor has that name */
} inner[] = {
	{ "attn_norm", "ln_1", ANY, RT_GGUF_GPT2 },
	{ "attn_qkv", "attn.c_attn", TURNED, RT_GGUF_GPT2 },
	{ "attn_output", "attn.c_proj", TURNED, RT_GGUF_GPT2 },
	{ "ffn_norm", "ln_2", ANY, RT_GGUF_GPT2 },
	{ "ffn_up", "mlp.c_fc", TURNED, RT_GGUF_GPT2 },
	{ "ffn_down", "mlp.c_proj", TURNED, RT_GGUF_GPT2 },
	{ "attn_qkv", "attention.query_key_value", THIRDS, RT_GGUF_GPTNEOX },
	{ "attn_output", "attention.dense", ANY, RT_GGUF_GPTNEOX },
	{ "ffn_up", "mlp.dense_h_to_4h", ANY, RT_GGUF_GPTNEOX },
	{ "ffn_down", "mlp.dense_4h_to_h", ANY, RT_GGUF_GPTNEOX },
	{ "attn_norm", "input_layernorm", ANY, RT_GGUF_ALL },
	{ "attn_q", "self_attn.q_proj", QUERIES, RT_GGUF_ALL },
	{ "attn_k", "self_attn.k_proj", KEYS, RT_GGUF_ALL },
	{ "attn_v", "self_attn.v_proj", ANY, RT_GGUF_ALL },
	{ "attn_qkv", "self_attn.qkv_proj", ANY, RT_GGUF_PHI3 },
	{ "attn_q_a", "self_attn.q_a_proj", ANY, RT_GGUF_DEEPSEEK2 },
	{ "attn_q_a_norm", "self_attn.q_a_layernorm", ANY, RT_GGUF_DEEPSEEK2 },
	{ "attn_q_b", "self_attn.q_b_proj", ANY, RT_GGUF_DEEPSEEK2 },
	{ "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", ANY,
	  RT_GGUF_DEEPSEEK2 },
	{ "attn_kv_a_norm", "self_attn.kv_a_layernorm", ANY,
	  RT_GGUF_DEEPSEEK2 },
	{ "attn_kv_b", "self_attn.kv_b_proj", ANY, RT_GGUF_DEEPSEEK2 },
	{ "attn_k_b", "self_attn.kv_b_proj", KEYS_OF, RT_GGUF_DEEPSEEK2 },
	{ "attn_v_b", "self_attn.kv_b_proj", VALUES_OF, RT_GGUF_DEEPSEEK2 },
	{ "attn_output", "self_attn.o_proj", ANY, RT_GGUF_ALL },
	{ "attn_q_norm", "self_attn.q_norm", ANY, RT_GGUF_ALL },
	{ "attn_k_norm", "self_attn.k_norm", ANY, RT_GGUF_ALL },
	{ "post_attention_norm", "post_attention_layernorm", ANY,
	  NORMS_AFTER },
	{ "ffn_norm", "pre_feedforward_layernorm", ANY, FOUR_NORMS },
	{ "ffn_norm", "post_attention_layernorm", ANY,
	  RT_GGUF_ALL & ~NORMS_AFTER },
	{ "post_ffw_norm", "post_feedforward_layernorm", ANY, NORMS_AFTER },
	{ "ffn_up", "mlp.gate_up_proj", ANY, RT_GGUF_PHI3 },
	{ "ffn_up", "mlp.c_fc", ANY, RT_GGUF_STARCODER2 },
	{ "ffn_down", "mlp.c_proj", ANY, RT_GGUF_STARCODER2 },
	{ "ffn_gate", "mlp.gate_proj", ANY, RT_GGUF_ALL },
	{ "ffn_up", "mlp.up_proj", ANY, RT_GGUF_ALL },
	{ "ffn_down", "mlp.down_proj", ANY, RT_GGUF_ALL },
	{ "attn_sinks", "self_attn.sinks.", ANY, RT_GGUF_GPT_OSS },
	{ "ffn_gate_inp", "mlp.router", ANY, RT_GGUF_GPT_OSS },
	{ "ffn_gate_exps", "mlp.experts.gate_up_proj.", GATES,
	  RT_GGUF_GPT_OSS },
	{ "ffn_up_exps", "mlp.experts.gate_up_proj.", GATED,
	  RT_GGUF_GPT_OSS },
	{ "ffn_down_exps", "mlp.experts.down_proj.", TURNED, RT_GGUF_GPT_OSS },
	{ "ffn_gate_inp", "block_sparse_moe.gate", ANY, RT_GGUF_LLAMA },
	{ "ffn_gate_exps", "block_sparse_moe.experts.*.w1", ANY,
	  RT_GGUF_LLAMA },
	{ "ffn_down_exps", "block_sparse_moe.experts.*.w2", ANY,
	  RT_GGUF_LLAMA },
	{ "ffn_up_exps", "block_sparse_moe.experts.*.w3", ANY,
	  RT_GGUF_LLAMA },
	{ "ffn_gate_inp", "mlp.gate", ANY, PLAIN_EXPERTS },
	{ "ffn_gate_exps", "mlp.experts.*.gate_proj", ANY, PLAIN_EXPERTS },
	{ "ffn_up_exps", "mlp.experts.*.up_proj", ANY, PLAIN_EXPERTS },
	{ "ffn_down_exps", "mlp.experts.*.down_proj", ANY, PLAIN_EXPERTS },
	{ "ffn_gate_inp_shexp", "mlp.shared_expert_gate", ONE,
	  RT_GGUF_QWEN2MOE },
	{ "ffn_gate_shexp", "mlp.shared_expert.gate_proj", ANY,
	  RT_GGUF_QWEN2MOE },
	{ "ffn_up_shexp", "mlp.shared_expert.up_proj", ANY, RT_GGUF_QWEN2MOE },
	{ "ffn_down_shexp", "mlp.shared_expert.down_proj", ANY,
	  RT_GGUF_QWEN2MOE },
	{ "ffn_gate_shexp", "mlp.shared_experts.gate_proj", ANY,
	  RT_GGUF_DEEPSEEK2 },
	{ "ffn_up_shexp", "mlp.shared_experts.up_proj", ANY,
	  RT_GGUF_DEEPSEEK2 },
	{ "ffn_down_shexp", "mlp.shared_experts.down_proj", ANY,
	  RT_GGUF_DEEPSEEK2 },
	{ "exp_probs_b", "mlp.gate.e_score_correction.", ANY,
	  RT_GGUF_DEEPSEEK2 },
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

/* What layers are called before their number. */
static const char *
layers_of(const struct rt_gguf_family *f)
{
	return f->of == RT_GGUF_GPT2 ? "transformer.h"
		: f->of == RT_GGUF_GPTNEOX ? "gpt_neox.layers"
					   : "model.layers";
}

/* The first row of a tensor outside of layers that has such a name, or
 * NOUTER. */
static size_t
find_outer(const struct rt_gguf_model *m, const char *part, size_t n)
{
	size_t i;

	for (i = 0; i < NOUTER; i++) {
		if (is_word(part, n, outer[i].theirs) &&
		    (outer[i].of & m->family->of)) {
			break;
		}
	}
	return i;
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

/* The first row of a layer's tensor that has such a name, or NINNER. */
static size_t
find_inner(const struct rt_gguf_model *m, const char *part, size_t n)
{
	size_t i;

	for (i = 0; i < NINNER; i++) {
		if (is_word(part, n, inner[i].theirs) &&
		    (inner[i].of & m->family->of)) {
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
	bool is_bias, is_bare;

	memset(out, 0, sizeof(*out));
	snprintf(out->text, sizeof(out->text), "%s", name);
	if (!tail || (size_t)(tail - name) < prefix ||
	    (strcmp(tail, ".weight") != 0 && strcmp(tail, ".bias") != 0)) {
		return;
	}
	rest = name + prefix;
	part = (size_t)(tail - rest);
	i = prefix == 0 ? find_outer(m, rest, part) : NOUTER;
	if (i < NOUTER) {
		snprintf(out->text, sizeof(out->text), "%s%s", outer[i].ours,
			 tail);
	}
	i = prefix > 0 ? find_inner(m, rest, part) : NINNER;
	out->plus_one = m->family->plus_one && rt_ends_in(name, "norm.weight");
	if (i == NINNER) {
		return;
	}
	is_bias = strcmp(tail, ".bias") == 0;
	is_bare = rt_ends_in(inner[i].ours, ".");
	snprintf(out->text, sizeof(out->text), "%s.%.*s.%.*s%s",
		 layers_of(m->family), (int)n, digits,
		 (int)(strlen(inner[i].ours) - is_bare), inner[i].ours,
		 !is_bare ? tail : is_bias ? "_bias" : "");
	out->experts = strchr(inner[i].ours, '*') != NULL;
	out->is_row = inner[i].rows == ONE;
	out->part = inner[i].rows > PARTS
		? (enum rt_gguf_part)(inner[i].rows - PARTS) : RT_GGUF_WHOLE;
	if (out->part == RT_GGUF_TURNED_PART && is_bias) {
		out->part = RT_GGUF_WHOLE;
	}
	if (m->family->turns && inner[i].rows == QUERIES) {
		out->heads = m->heads;
	} else if (m->family->turns && inner[i].rows == KEYS) {
		out->heads = m->key_heads;
	} else if (inner[i].rows == THIRDS) {
		out->heads = m->heads;
		out->thirds = true;
	}
}
