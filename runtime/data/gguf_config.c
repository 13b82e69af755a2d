/*
 * What the config.json of a model at Hugging Face would be, of the keys and
 * tensors of a GGUF file: see gguf.h.  A key that is not known may change what
 * the model computes, so there is no config.json of a file with one.
 */
#include "runtime/data/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text.h"

struct configuring {
	const struct rt_st *st;
	const struct rt_gguf_model *m;
	struct rt_text text;
	enum rt_status status;
	struct rt_error *err;
};

/* The message is of the file as a whole. */
static void RT_PRINTF(2, 3)
fail(struct configuring *c, const char *fmt, ...)
{
	struct rt_where where = rt_shard_where(&c->st->shards[0], NULL, -1);
	va_list ap;

	if (c->status == RT_OK) {
		va_start(ap, fmt);
		c->status = rt_vfail(c->err, RT_FORMAT, where, fmt, ap);
		va_end(ap);
	}
}

static bool
is_of(const struct configuring *c, int families)
{
	return (c->m->family->of & families) != 0;
}

/* ---- fields ----------------------------------------------------------- */

static void
add_word(struct configuring *c, const char *field, const char *word)
{
	rt_text_add(&c->text, "  \"%s\": \"%s\",\n", field, word);
}

static void
add_flag(struct configuring *c, const char *field, bool on)
{
	rt_text_add(&c->text, "  \"%s\": %s,\n", field, on ? "true" : "false");
}

/* The shortest that is the same f32, as keys have such numbers; 10000.0 rather
 * than 1e+04. */
static struct rt_shown
shown(double v)
{
	struct rt_shown s;
	int digits = 1;

	if (v == floor(v) && fabs(v) < 1e9) {
		snprintf(s.text, sizeof(s.text), "%.1f", v);
		return s;
	}
	do {
		snprintf(s.text, sizeof(s.text), "%.*g", digits, v);
	} while (digits++ < 9 && strtof(s.text, NULL) != (float)v);
	return s;
}

static bool
is_whole(double v)
{
	return v >= 1 && v <= INT32_MAX && v == floor(v);
}

static void
add_count(struct configuring *c, const char *field, double v)
{
	if (!is_whole(v)) {
		fail(c, "found no whole number for %s among the keys of %s, "
		     "expected one", field, c->m->family->name);
		return;
	}
	rt_text_add(&c->text, "  \"%s\": %.0f,\n", field, v);
}

static void
add_fact(struct configuring *c, const char *field, enum rt_gguf_fact fact)
{
	add_count(c, field, c->m->facts[fact]);
}

static void
add_real(struct configuring *c, const char *field, double v)
{
	if (!(v > 0) || !isfinite(v)) {
		fail(c, "found no number for %s among the keys of %s, expected "
		     "one above 0", field, c->m->family->name);
		return;
	}
	rt_text_add(&c->text, "  \"%s\": %s,\n", field, shown(v).text);
}

/* ---- rotary embedding -------------------------------------------------- */

/* Llama 3.1 to 3.3: what frequencies are divided by is a tensor, of which the
 * largest is the factor. */
enum { LLAMA3_LOW = 1, LLAMA3_HIGH = 4, LLAMA3_FROM = 8192 };

static double
llama3_divisor(double theta, int64_t i, int64_t n, double factor)
{
	double wave = 2 * acos(-1) * pow(theta, (double)i / (double)n);
	double smooth = (LLAMA3_FROM / wave - LLAMA3_LOW) /
			(LLAMA3_HIGH - LLAMA3_LOW);

	smooth = fmin(fmax(smooth, 0), 1);
	return 1 / ((1 - smooth) / factor + smooth);
}

static void
add_llama3(struct configuring *c, const struct rt_st_tensor *t, double theta,
	   double dim)
{
	int64_t n = rt_st_elems(t), i;
	double factor = 0, *v;

	if ((double)n != dim / 2) {
		fail(c, "found %" PRId64 " frequencies in %s, expected %g, as "
		     "heads have %g numbers", n, t->name, dim / 2, dim);
		return;
	}
	v = rt_resize(&c->st->alloc, NULL, (size_t)n, sizeof(*v));
	if (!v) {
		c->status = rt_no_memory(c->err, c->st->shards[0].path);
		return;
	}
	c->status = rt_st_read_f64(c->st, t, 0, n, v, c->err);
	for (i = 0; i < n && c->status == RT_OK; i++) {
		factor = fmax(factor, v[i]);
	}
	for (i = 0; i < n && c->status == RT_OK; i++) {
		double want = llama3_divisor(theta, i, n, factor);

		if (!(fabs(v[i] - want) <= 1e-4 * want)) {
			fail(c, "found frequencies in %s that are not divided "
			     "as those of Llama 3.1 are, expected a factor "
			     "from %d positions on", t->name, LLAMA3_FROM);
		}
	}
	rt_release(&c->st->alloc, v);
	rt_text_add(&c->text, "  \"rope_scaling\": {\n"
		    "    \"factor\": %s,\n    \"low_freq_factor\": %d,\n"
		    "    \"high_freq_factor\": %d,\n"
		    "    \"original_max_position_embeddings\": %d,\n"
		    "    \"rope_type\": \"llama3\"\n  },\n",
		    shown(factor).text, LLAMA3_LOW, LLAMA3_HIGH, LLAMA3_FROM);
}

/* With a factor and no type llama.cpp divides positions by it. */
static const char *
scaling_type(const struct configuring *c)
{
	const char *type = c->m->scaling;

	return *type ? type : c->m->facts[RT_GGUF_SCALING] != 0 ? "linear"
								 : "none";
}

static void
add_scaling(struct configuring *c, const char *type)
{
	double factor = c->m->facts[RT_GGUF_SCALING];
	double from = c->m->facts[RT_GGUF_SCALED_FROM];

	if (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0) {
		fail(c, "found rope.scaling.type '%s', expected none, linear "
		     "or yarn", rt_show_name(type).text);
	} else if (!(factor > 0) || !isfinite(factor) ||
		   (*type == 'y' && !is_whole(from))) {
		fail(c, "found no rope.scaling.factor, or of yarn no "
		     "rope.scaling.original_context_length, expected them");
	}
	rt_text_add(&c->text, "  \"rope_scaling\": {\n    \"factor\": %s,\n",
		    shown(factor).text);
	if (*type == 'y') {
		rt_text_add(&c->text, "    \"original_max_position_embeddings"
			    "\": %.0f,\n", from);
	}
	if (is_of(c, RT_GGUF_GPT_OSS)) { /* which no key says */
		rt_text_add(&c->text, "    \"truncate\": false,\n");
	}
	if (c->m->facts[RT_GGUF_LOG_FACTOR] != 0) {
		/* of the decimals that the f32 stands for */
		double m = 10 * strtod(shown(c->m->facts[
				RT_GGUF_LOG_FACTOR]).text, NULL);

		rt_text_add(&c->text, "  ");
		add_real(c, "mscale", m);
		rt_text_add(&c->text, "  ");
		add_real(c, "mscale_all_dim", m);
	}
	rt_text_add(&c->text, "    \"rope_type\": \"%s\"\n  },\n", type);
}

/* A list of what frequencies are divided by; of a head, `dim` numbers turn. */
static void
add_factors(struct configuring *c, const char *field, const char *name,
	    double dim)
{
	const struct rt_st_tensor *t = rt_st_find(c->st, name);
	int64_t n = t ? rt_st_elems(t) : 0, i;
	double v = 0;

	if ((double)n != dim / 2) {
		fail(c, "found %" PRId64 " numbers in %s, expected %g, as "
		     "heads turn %g numbers", n, name, dim / 2, dim);
		return;
	}
	rt_text_add(&c->text, "    \"%s\": [", field);
	for (i = 0; i < n && c->status == RT_OK; i++) {
		c->status = rt_st_read_f64(c->st, t, i, 1, &v, c->err);
		rt_text_add(&c->text, "%s%s", i > 0 ? ", " : "",
			    shown(v).text);
		if (!(v > 0) || !isfinite(v)) {
			fail(c, "found a number of %s that is not above 0, "
			     "expected all above it", name);
		}
	}
	rt_text_add(&c->text, "],\n");
}

/* Phi-3's positions are scaled by lists, or not at all. */
static void
check_longrope(struct configuring *c, const char *type, bool has_lists)
{
	double scale = c->m->facts[RT_GGUF_SCALING];
	double factor = c->m->facts[RT_GGUF_TURN_FACTOR];

	if (strcmp(type, "none") != 0 && (strcmp(type, "longrope") != 0 ||
					  (scale != 0 && scale != 1))) {
		fail(c, "found rope.scaling of type '%s' and factor %s in a "
		     "file of phi3, expected none but that of rope_factors_"
		     "long.weight", rt_show_name(type).text,
		     shown(scale).text);
	} else if (!has_lists && ((factor != 0 && factor != 1) ||
		   rt_st_find(c->st, "rope_factors_short.weight"))) {
		fail(c, "found rope.scaling.attn_factor or rope_factors_short."
		     "weight, expected rope_factors_long.weight beside it");
	}
}

/* What attention is multiplied by is written if it is not what follows. */
static void
add_longrope(struct configuring *c, const char *type, double dim)
{
	double factor = c->m->facts[RT_GGUF_TURN_FACTOR], follows;
	double from = c->m->facts[RT_GGUF_SCALED_FROM];
	bool has_lists = rt_st_find(c->st, "rope_factors_long.weight") != NULL;

	check_longrope(c, type, has_lists);
	if (is_whole(from)) {
		add_count(c, "original_max_position_embeddings", from);
	}
	if (!has_lists || c->status != RT_OK) {
		return;
	}
	if (!is_whole(from)) {
		fail(c, "found no rope.scaling.original_context_length beside "
		     "rope_factors_long.weight, expected it");
		return;
	}
	follows = c->m->facts[RT_GGUF_CONTEXT] / from;
	follows = follows > 1 ? sqrt(1 + log(follows) / log(from)) : 1;
	rt_text_add(&c->text, "  \"rope_scaling\": {\n");
	add_factors(c, "long_factor", "rope_factors_long.weight", dim);
	add_factors(c, "short_factor", "rope_factors_short.weight", dim);
	if (factor != 0 && !(fabs(factor - follows) <= 1e-6 * follows)) {
		rt_text_add(&c->text, "  ");
		add_real(c, "attention_factor", factor);
	}
	rt_text_add(&c->text, "    \"rope_type\": \"longrope\"\n  },\n");
}

static void
add_rope(struct configuring *c, double dim)
{
	const struct rt_st_tensor *t = rt_st_find(c->st, "rope_freqs.weight");
	double theta = c->m->facts[RT_GGUF_THETA];
	double turned = c->m->facts[RT_GGUF_TURNED];
	const char *type = scaling_type(c);
	bool is_scaled = strcmp(type, "none") != 0;

	theta = theta != 0 ? theta : 10000;
	add_real(c, "rope_theta", theta);
	if (is_of(c, RT_GGUF_GPTNEOX) ||
	    (is_of(c, RT_GGUF_PHI3) && turned > 0 && turned < dim)) {
		add_real(c, "partial_rotary_factor",
			 (turned != 0 ? turned : dim) / dim);
	} else if (turned != 0 && turned != dim) {
		fail(c, "found rope.dimension_count %s, expected all %.0f of a "
		     "head", shown(turned).text, dim);
	}
	if (c->status != RT_OK) {
		return;
	}
	if (t && is_scaled) {
		fail(c, "found both %s and rope.scaling of type %s, expected "
		     "one of them", t->name, rt_show_name(type).text);
	} else if (t) {
		add_llama3(c, t, theta, dim);
	} else if (is_of(c, RT_GGUF_PHI3)) {
		add_longrope(c, type, turned != 0 ? turned : dim);
	} else if (is_scaled) {
		add_scaling(c, type);
	}
}

/* ---- the model --------------------------------------------------------- */

/* DeepSeek's keys and values are made of vectors of a rank.  Newer files call
 * the numbers of what attention reads then key_length, and those of a head
 * key_length_mla. */
static void
add_latent(struct configuring *c)
{
	const double *facts = c->m->facts;
	double key = facts[RT_GGUF_LATENT_KEY_DIM];
	double value = facts[RT_GGUF_LATENT_VALUE_DIM];

	key = key != 0 ? key : facts[RT_GGUF_KEY_DIM];
	value = value != 0 ? value : facts[RT_GGUF_VALUE_DIM];
	if (facts[RT_GGUF_QUERY_RANK] != 0) {
		add_fact(c, "q_lora_rank", RT_GGUF_QUERY_RANK);
	} else {
		rt_text_add(&c->text, "  \"q_lora_rank\": null,\n");
	}
	add_fact(c, "kv_lora_rank", RT_GGUF_RANK);
	add_fact(c, "qk_rope_head_dim", RT_GGUF_TURNED);
	add_count(c, "qk_nope_head_dim", key - facts[RT_GGUF_TURNED]);
	add_count(c, "v_head_dim", value);
	add_rope(c, facts[RT_GGUF_TURNED]);
}

static void
add_sizes(struct configuring *c)
{
	const struct rt_st_tensor *words = rt_st_find(c->st,
					"model.embed_tokens.weight");
	const double *facts = c->m->facts;
	double dim = facts[RT_GGUF_KEY_DIM];

	add_fact(c, "hidden_size", RT_GGUF_HIDDEN);
	if (facts[RT_GGUF_FFN] != 0 || facts[RT_GGUF_EXPERT_FFN] == 0) {
		add_fact(c, "intermediate_size", RT_GGUF_FFN);
	}
	add_fact(c, "num_hidden_layers", RT_GGUF_LAYERS);
	add_count(c, "num_attention_heads", (double)c->m->heads);
	if (!is_of(c, RT_GGUF_DEEPSEEK2)) {
		add_count(c, "num_key_value_heads", (double)c->m->key_heads);
	}
	add_fact(c, "max_position_embeddings", RT_GGUF_CONTEXT);
	add_count(c, "vocab_size", words ? (double)words->shape[0] : 0);
	if (is_of(c, RT_GGUF_STARCODER2)) {
		add_real(c, "norm_epsilon", facts[RT_GGUF_LAYER_EPS]);
	} else {
		add_real(c, "rms_norm_eps", facts[RT_GGUF_EPS]);
	}
	if (c->status != RT_OK) {
		return;
	}
	if (is_of(c, RT_GGUF_DEEPSEEK2)) {
		add_latent(c);
		return;
	}
	if (dim != 0 && facts[RT_GGUF_VALUE_DIM] != dim) {
		fail(c, "found attention.value_length other than key_length, "
		     "expected the same");
	}
	if (dim != 0) {
		add_count(c, "head_dim", dim);
	}
	add_rope(c, dim != 0 ? dim
			     : facts[RT_GGUF_HIDDEN] / (double)c->m->heads);
}

/* ---- GPT-2 and GPT-NeoX ------------------------------------------------- */

static void
add_vocab(struct configuring *c, const char *embedding)
{
	const struct rt_st_tensor *t = rt_st_find(c->st, embedding);

	add_count(c, "vocab_size", t ? (double)t->shape[0] : 0);
}

static void
add_gpt2(struct configuring *c)
{
	const double *facts = c->m->facts;

	add_vocab(c, "transformer.wte.weight");
	add_fact(c, "n_embd", RT_GGUF_HIDDEN);
	if (facts[RT_GGUF_FFN] != 4 * facts[RT_GGUF_HIDDEN]) {
		add_fact(c, "n_inner", RT_GGUF_FFN);
	}
	add_fact(c, "n_layer", RT_GGUF_LAYERS);
	add_count(c, "n_head", (double)c->m->heads);
	add_fact(c, "n_positions", RT_GGUF_CONTEXT);
	add_real(c, "layer_norm_epsilon", facts[RT_GGUF_LAYER_EPS]);
	add_word(c, "activation_function", "gelu_new");
}

static void
add_gpt_neox(struct configuring *c)
{
	const double *facts = c->m->facts;
	double parallel = facts[RT_GGUF_PARALLEL];

	add_vocab(c, "gpt_neox.embed_in.weight");
	add_fact(c, "hidden_size", RT_GGUF_HIDDEN);
	add_fact(c, "intermediate_size", RT_GGUF_FFN);
	add_fact(c, "num_hidden_layers", RT_GGUF_LAYERS);
	add_count(c, "num_attention_heads", (double)c->m->heads);
	add_fact(c, "max_position_embeddings", RT_GGUF_CONTEXT);
	add_real(c, "layer_norm_eps", facts[RT_GGUF_LAYER_EPS]);
	add_word(c, "hidden_act", "gelu");
	if (parallel != 1 && parallel != -1) {
		fail(c, "found no gptneox.use_parallel_residual that is true "
		     "or false, expected it");
	}
	add_flag(c, "use_parallel_residual", parallel == 1);
	if (c->status == RT_OK) {
		add_rope(c, facts[RT_GGUF_HIDDEN] / (double)c->m->heads);
	}
}

/* How DeepSeek chooses experts; without keys of groups, of all of them. */
static void
add_routing(struct configuring *c, bool is_v3)
{
	const double *facts = c->m->facts;
	double groups = facts[RT_GGUF_GROUPS], top = facts[RT_GGUF_TOP_GROUPS];

	add_fact(c, "n_routed_experts", RT_GGUF_EXPERTS);
	add_fact(c, "num_experts_per_tok", RT_GGUF_CHOICES);
	add_fact(c, "moe_intermediate_size", RT_GGUF_EXPERT_FFN);
	add_fact(c, "n_shared_experts", RT_GGUF_SHARED);
	if (facts[RT_GGUF_DENSE_LAYERS] != 0) {
		add_fact(c, "first_k_dense_replace", RT_GGUF_DENSE_LAYERS);
	} else {
		rt_text_add(&c->text, "  \"first_k_dense_replace\": 0,\n");
	}
	add_real(c, "routed_scaling_factor", facts[RT_GGUF_EXPERT_SCALE] != 0
		 ? facts[RT_GGUF_EXPERT_SCALE] : 1);
	add_flag(c, "norm_topk_prob", facts[RT_GGUF_EXPERT_NORM] == 1);
	if (is_v3 || groups > 1) {
		add_count(c, "n_group", groups != 0 ? groups : 1);
		add_count(c, "topk_group", top != 0 ? top : 1);
	}
	add_word(c, "topk_method", is_v3 ? "noaux_tc" : groups > 1
		 ? "group_limited_greedy" : "greedy");
	add_word(c, "scoring_func", is_v3 ? "sigmoid" : "softmax");
}

static void
add_experts(struct configuring *c)
{
	bool of_qwen = is_of(c, RT_GGUF_QWEN2MOE | RT_GGUF_QWEN3MOE);

	add_fact(c, of_qwen ? "num_experts" : "num_local_experts",
		 RT_GGUF_EXPERTS);
	add_fact(c, "num_experts_per_tok", RT_GGUF_CHOICES);
	if (of_qwen) {
		add_fact(c, "moe_intermediate_size", RT_GGUF_EXPERT_FFN);
		/* as llama.cpp computes them */
		add_flag(c, "norm_topk_prob", is_of(c, RT_GGUF_QWEN3MOE));
	}
	if (is_of(c, RT_GGUF_QWEN2MOE)) {
		add_fact(c, "shared_expert_intermediate_size",
			 RT_GGUF_SHARED_FFN);
	}
}

/* ---- what only some families have ---------------------------------------- */

/* A number that has a value even where no key says it; 0: it has none. */
static void
add_real_or(struct configuring *c, const char *field, enum rt_gguf_fact fact,
	    double otherwise)
{
	double v = c->m->facts[fact];

	v = v != 0 ? v : otherwise;
	if (v != 0) {
		add_real(c, field, v);
	}
}

/* What scores are divided by the root of is in no key: it is the numbers of a
 * head, but in the largest model of each family, which its layers tell. */
static void
add_gemma_scale(struct configuring *c)
{
	const double *facts = c->m->facts;
	double largest = is_of(c, RT_GGUF_GEMMA2) ? 46 : 62;
	double share = facts[RT_GGUF_HIDDEN] / (double)c->m->heads;

	add_real(c, "query_pre_attn_scalar", facts[RT_GGUF_LAYERS] == largest
		 ? share : facts[RT_GGUF_KEY_DIM] != 0 ? facts[RT_GGUF_KEY_DIM]
						       : share);
}

/* What no key says are llama.cpp's values then, of which there is none for
 * windows of Gemma 3. */
static void
add_gemma(struct configuring *c)
{
	double window = c->m->facts[RT_GGUF_WINDOW];

	add_word(c, "hidden_activation", "gelu_pytorch_tanh");
	if (is_of(c, RT_GGUF_GEMMA)) {
		return;
	}
	add_gemma_scale(c);
	add_count(c, "sliding_window", window == 0 && is_of(c, RT_GGUF_GEMMA2)
		  ? 4096 : window);
	if (is_of(c, RT_GGUF_GEMMA2)) {
		add_real_or(c, "attn_logit_softcapping", RT_GGUF_ATTENTION_CAP,
			    50);
	} else {
		add_real_or(c, "rope_local_base_freq", RT_GGUF_NEAR_THETA,
			    10000);
	}
	add_real_or(c, "final_logit_softcapping", RT_GGUF_LOGIT_CAP,
		    is_of(c, RT_GGUF_GEMMA2) ? 30 : 0);
}

static void
add_granite(struct configuring *c)
{
	double dim = c->m->facts[RT_GGUF_KEY_DIM];

	dim = dim != 0 ? dim
		       : c->m->facts[RT_GGUF_HIDDEN] / (double)c->m->heads;
	add_real_or(c, "embedding_multiplier", RT_GGUF_EMBEDDING_SCALE, 1);
	add_real_or(c, "residual_multiplier", RT_GGUF_RESIDUAL_SCALE, 1);
	add_real_or(c, "logits_scaling", RT_GGUF_LOGIT_SCALE, 1);
	add_real_or(c, "attention_multiplier", RT_GGUF_ATTENTION_SCALE,
		    1 / sqrt(dim));
}

static void
add_gpt_oss(struct configuring *c)
{
	double window = c->m->facts[RT_GGUF_WINDOW];

	add_flag(c, "attention_bias", true);
	add_count(c, "sliding_window", window != 0 ? window : 128);
}

static void
add_own(struct configuring *c)
{
	static const char first[] = "model.layers.0.self_attn.q_proj.bias";
	bool has_bias = rt_st_find(c->st, first) != NULL;

	if (is_of(c, RT_GGUF_GEMMA | RT_GGUF_GEMMA2 | RT_GGUF_GEMMA3)) {
		add_gemma(c);
	} else if (is_of(c, RT_GGUF_GRANITE)) {
		add_granite(c);
	} else if (is_of(c, RT_GGUF_GPT_OSS)) {
		add_gpt_oss(c);
	} else if (is_of(c, RT_GGUF_STARCODER2)) {
		add_flag(c, "use_bias", has_bias);
	} else if (is_of(c, RT_GGUF_QWEN2MOE)) {
		add_flag(c, "qkv_bias", has_bias);
	} else if (is_of(c, RT_GGUF_LLAMA) &&
		   c->m->facts[RT_GGUF_EXPERTS] == 0) {
		add_flag(c, "attention_bias", has_bias);
	} else if (is_of(c, RT_GGUF_PHI3) &&
		   c->m->facts[RT_GGUF_WINDOW] != 0) {
		add_fact(c, "sliding_window", RT_GGUF_WINDOW);
	}
}

static const char *
stored_type(const struct configuring *c)
{
	static const char *const names[] = {
		"model.layers.0.self_attn.q_proj.weight",
		"model.layers.0.self_attn.qkv_proj.weight",
		"model.layers.0.self_attn.q_b_proj.weight",
		"transformer.h.0.attn.c_attn.weight",
		"gpt_neox.layers.0.attention.query_key_value.weight"
	};
	const struct rt_st_tensor *t = NULL;
	enum rt_dtype dtype;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]) && !t; i++) {
		t = rt_st_find(c->st, names[i]);
	}
	if (!t || (t->view && t->view->type->widen)) {
		return "bfloat16";
	}
	dtype = t->view ? t->view->type->dtype : t->dtype;
	return dtype == RT_F32 ? "float32"
		: dtype == RT_F16 ? "float16" : "bfloat16";
}

/* What expert_gating_func may be. */
enum { SOFTMAX = 1, SIGMOID = 2 };

static const struct rt_gguf_kind v3 = {
	"deepseek_v3", "DeepseekV3ForCausalLM"
};

/* What Llama and its kin have. */
static void
add_decoder(struct configuring *c, bool is_v3)
{
	add_word(c, "hidden_act", is_of(c, RT_GGUF_GEMMA | RT_GGUF_GEMMA2 |
					RT_GGUF_GEMMA3 | RT_GGUF_STARCODER2)
		 ? "gelu_pytorch_tanh" : "silu");
	add_sizes(c);
	if (is_of(c, RT_GGUF_DEEPSEEK2)) {
		add_routing(c, is_v3);
	} else if (c->m->facts[RT_GGUF_EXPERTS] != 0) {
		add_experts(c);
	}
	add_own(c);
}

static void
add_model(struct configuring *c)
{
	const struct rt_gguf_family *f = c->m->family;
	bool experts = c->m->facts[RT_GGUF_EXPERTS] != 0;
	const struct rt_gguf_kind *kind = experts ? &f->sparse : &f->dense;
	double gating = c->m->facts[RT_GGUF_GATING];

	if (experts && gating == SIGMOID) {
		kind = &v3;
	} else if (gating != 0 && gating != SOFTMAX) {
		fail(c, "found expert_gating_func %s, expected %d or %d",
		     shown(gating).text, SOFTMAX, SIGMOID);
	}

	if (c->m->unknown[0]) {
		fail(c, "found the key '%s', which is not known and may change "
		     "what the model computes, expected none",
		     rt_show_name(c->m->unknown).text);
	} else if (!kind->class) {
		fail(c, "found a model of %s with%s expert_count, expected one "
		     "with%s", f->name, experts ? "" : "out",
		     experts ? "out" : "");
	}
	if (c->status != RT_OK) {
		return;
	}
	rt_text_add(&c->text, "  \"architectures\": [\"%s\"],\n", kind->class);
	add_word(c, "model_type", kind->model_type);
	if (is_of(c, RT_GGUF_GPT2)) {
		add_gpt2(c);
	} else if (is_of(c, RT_GGUF_GPTNEOX)) {
		add_gpt_neox(c);
	} else {
		add_decoder(c, kind == &v3);
	}
	add_flag(c, "tie_word_embeddings",
		 !rt_st_find(c->st, is_of(c, RT_GGUF_GPTNEOX)
			     ? "embed_out.weight" : "lm_head.weight"));
	rt_text_add(&c->text, "  \"torch_dtype\": \"%s\"\n}\n",
		    stored_type(c));
}

enum rt_status
rt_st_config(const struct rt_st *st, char **out, struct rt_error *err)
{
	struct configuring c = { .st = st, .m = st->gguf, .err = err };

	*out = NULL;
	c.text.alloc = st->alloc;
	rt_text_add(&c.text, "{\n");
	add_model(&c);
	if (c.status == RT_OK && c.text.failed) {
		c.status = rt_no_memory(err, st->shards[0].path);
	}
	if (c.status != RT_OK) {
		rt_text_release(&c.text);
		return c.status;
	}
	*out = c.text.at;
	return RT_OK;
}
