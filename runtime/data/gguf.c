/*
 * What stands before the data of a GGUF file, version 3: see gguf.h.  All
 * numbers are little-endian:
 *
 *	"GGUF", u32 version, u64 tensors, u64 keys
 *	keys times: text name, u32 type, value
 *	tensors times: text name, u32 dims, u64 size[dims], u32 type,
 *		u64 offset
 *	zeros up to a multiple of the key general.alignment, or 32; the data
 *
 * A text is a u64 and so many bytes; the first size is that of a row's
 * elements.  The format is of ggml-org/ggml; as for .safetensors, every byte of
 * the data belongs to a tensor, or is one of the zeros before the next.
 */
#include "runtime/data/gguf_reading.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALIGNMENT = 1 << 16 };

static void
read_architecture(struct gguf_reading *r, uint64_t type)
{
	int64_t at = r->at;

	if (r->architecture[0]) {
		rt_gguf_fail(r, at, "found general.architecture twice, "
			     "expected it once");
	} else if (type == RT_GGUF_TEXT) {
		rt_gguf_text(r, r->architecture, sizeof(r->architecture));
	}
	r->model->family = rt_gguf_family(r->architecture);
	if (!r->model->family) {
		rt_gguf_fail(r, at, "found general.architecture '%s', expected "
			     "%s", rt_show_name(r->architecture).text,
			     rt_gguf_families);
	}
}

/* What llama-gguf-split --merge makes has a split.count of 0. */
static void
read_split(struct gguf_reading *r, const char *key, uint64_t type)
{
	int64_t at = r->at;

	if (rt_gguf_whole(r, key, type, 0) > 1 && r->status == RT_OK) {
		rt_gguf_fail(r, at, "found one of several files (split.count), "
			     "expected a whole one: llama-gguf-split --merge "
			     "makes it");
	}
}

/* Keys after "ARCHITECTURE.", and of which families they are; others may change
 * what the model computes. */
static const struct {
	const char *tail;
	enum rt_gguf_of of; /* 0: all */
} facts[RT_GGUF_NFACTS] = {
	[RT_GGUF_CONTEXT] = { "context_length", 0 },
	[RT_GGUF_HIDDEN] = { "embedding_length", 0 },
	[RT_GGUF_LAYERS] = { "block_count", 0 },
	[RT_GGUF_FFN] = { "feed_forward_length", 0 },
	[RT_GGUF_KEY_DIM] = { "attention.key_length", 0 },
	[RT_GGUF_VALUE_DIM] = { "attention.value_length", 0 },
	[RT_GGUF_EPS] = { "attention.layer_norm_rms_epsilon",
			  RT_GGUF_ALL & ~RT_GGUF_STARCODER2 },
	[RT_GGUF_THETA] = { "rope.freq_base", 0 },
	[RT_GGUF_TURNED] = { "rope.dimension_count", 0 },
	[RT_GGUF_EXPERTS] = { "expert_count", 0 },
	[RT_GGUF_CHOICES] = { "expert_used_count", 0 },
	[RT_GGUF_EXPERT_FFN] = { "expert_feed_forward_length", 0 },
	[RT_GGUF_SCALING] = { "rope.scaling.factor", 0 },
	[RT_GGUF_SCALED_FROM] = { "rope.scaling.original_context_length", 0 },
	[RT_GGUF_VOCAB] = { "vocab_size", 0 },
	[RT_GGUF_SHARED_FFN] = { "expert_shared_feed_forward_length",
				 RT_GGUF_QWEN2MOE },
	[RT_GGUF_WINDOW] = { "attention.sliding_window",
			     RT_GGUF_GEMMA2 | RT_GGUF_GEMMA3 | RT_GGUF_PHI3 |
			     RT_GGUF_GPT_OSS },
	[RT_GGUF_ATTENTION_CAP] = { "attn_logit_softcapping", RT_GGUF_GEMMA2 },
	[RT_GGUF_LOGIT_CAP] = { "final_logit_softcapping",
				RT_GGUF_GEMMA2 | RT_GGUF_GEMMA3 },
	[RT_GGUF_ATTENTION_SCALE] = { "attention.scale", RT_GGUF_GRANITE },
	[RT_GGUF_EMBEDDING_SCALE] = { "embedding_scale", RT_GGUF_GRANITE },
	[RT_GGUF_RESIDUAL_SCALE] = { "residual_scale", RT_GGUF_GRANITE },
	[RT_GGUF_LOGIT_SCALE] = { "logit_scale", RT_GGUF_GRANITE },
	[RT_GGUF_LAYER_EPS] = { "attention.layer_norm_epsilon",
				RT_GGUF_STARCODER2 },
	[RT_GGUF_TURN_FACTOR] = { "rope.scaling.attn_factor", RT_GGUF_PHI3 },
	[RT_GGUF_NEAR_THETA] = { "rope.freq_base_swa", RT_GGUF_GEMMA3 },
	[RT_GGUF_QUERY_RANK] = { "attention.q_lora_rank", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_RANK] = { "attention.kv_lora_rank", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_LATENT_KEY_DIM] = { "attention.key_length_mla",
				     RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_LATENT_VALUE_DIM] = { "attention.value_length_mla",
				       RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_DENSE_LAYERS] = { "leading_dense_block_count",
				   RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_SHARED] = { "expert_shared_count", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_EXPERT_SCALE] = { "expert_weights_scale", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_EXPERT_NORM] = { "expert_weights_norm", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_GATING] = { "expert_gating_func", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_GROUPS] = { "expert_group_count", RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_TOP_GROUPS] = { "expert_group_used_count",
				 RT_GGUF_DEEPSEEK2 },
	[RT_GGUF_LOG_FACTOR] = { "rope.scaling.yarn_log_multiplier",
				 RT_GGUF_DEEPSEEK2 },
};

/* Bits of `seen` after those of facts. */
enum { HEADS = RT_GGUF_NFACTS, KEY_HEADS, SCALING_TYPE, ALIGNED, NSEEN };

_Static_assert(NSEEN <= 64, "a word has a bit for each");

/* Fails if the key came before, as readers would differ in which counts. */
static void
note_once(struct gguf_reading *r, const char *key, size_t bit)
{
	if (r->seen >> bit & 1) {
		rt_gguf_fail(r, r->at, "found '%s' twice, expected it once",
			     rt_show_name(key).text);
	}
	r->seen |= UINT64_C(1) << bit;
}

/* Of a key of the model's: what is after "ARCHITECTURE.", as `tail`. */
static void
read_fact(struct gguf_reading *r, const char *key, const char *tail,
	  uint64_t type)
{
	struct rt_gguf_model *m = r->model;
	size_t i;

	if (strcmp(tail, "attention.head_count") == 0) {
		note_once(r, key, HEADS);
		m->heads = rt_gguf_whole(r, key, type, 1);
		return;
	}
	if (strcmp(tail, "attention.head_count_kv") == 0) {
		note_once(r, key, KEY_HEADS);
		m->key_heads = rt_gguf_whole(r, key, type, 1);
		return;
	}
	for (i = 0; i < RT_GGUF_NFACTS; i++) {
		if (strcmp(tail, facts[i].tail) == 0 && (facts[i].of == 0 ||
		    (facts[i].of & m->family->of))) {
			note_once(r, key, i);
			m->facts[i] = i == RT_GGUF_EXPERT_NORM &&
				type == RT_GGUF_BOOL
				? (double)rt_gguf_number(r, 1)
				: rt_gguf_real(r, type);
			return;
		}
	}
	if (strcmp(tail, "rope.scaling.type") == 0 && type == RT_GGUF_TEXT) {
		note_once(r, key, SCALING_TYPE);
		rt_gguf_text(r, m->scaling, sizeof(m->scaling));
		return;
	}
	if (!m->unknown[0]) {
		snprintf(m->unknown, sizeof(m->unknown), "%s", key);
	}
	rt_gguf_skip_value(r, type);
}

/* Whether a key is one of the model's, of whatever family. */
static bool
is_fact(const char *key)
{
	char family[RT_GGUF_MOST_WORD + 1];
	size_t n = strcspn(key, ".");

	snprintf(family, sizeof(family), "%.*s", (int)n, key);
	return key[n] == '.' && rt_gguf_family(family);
}

static void
read_key(struct gguf_reading *r)
{
	char key[RT_GGUF_MOST_WORD + 1];
	int64_t at = r->at;
	size_t own = strlen(r->architecture);
	uint64_t type;

	if (!rt_gguf_read_key(r, key, sizeof(key), &type)) {
		return;
	}
	if (strcmp(key, "general.architecture") == 0) {
		read_architecture(r, type);
	} else if (strcmp(key, "general.alignment") == 0) {
		note_once(r, key, ALIGNED);
		r->alignment = rt_gguf_whole(r, key, type, 1);
	} else if (own > 0 && strncmp(key, r->architecture, own) == 0 &&
		   key[own] == '.') {
		read_fact(r, key, key + own + 1, type);
	} else if (own == 0 && is_fact(key)) {
		rt_gguf_fail(r, at, "found '%s' before general.architecture, "
			     "expected it after that", rt_show_name(key).text);
	} else if (strcmp(key, "split.count") == 0) {
		read_split(r, key, type);
	} else {
		rt_gguf_skip_value(r, type);
	}
}

static void
check_keys(struct gguf_reading *r)
{
	struct rt_gguf_model *m = r->model;
	int64_t a = r->alignment;

	if (r->status != RT_OK) {
		return;
	}
	if (!r->architecture[0]) {
		rt_gguf_fail(r, -1, "found no general.architecture before the "
			     "tensors, expected %s", rt_gguf_families);
	} else if (a > MOST_ALIGNMENT || (a & (a - 1)) != 0) {
		rt_gguf_fail(r, -1, "found general.alignment %" PRId64 ", "
			     "expected a power of 2 of at most %d", a,
			     MOST_ALIGNMENT);
	}
	if (m->key_heads == 0) {
		m->key_heads = m->heads;
	}
	if (r->status == RT_OK && m->family->turns && m->heads == 0) {
		rt_gguf_fail(r, -1, "found no %s.attention.head_count after "
			     "general.architecture, expected one, as it says "
			     "how rows lie", r->architecture);
	}
}

/* ---- all of it ------------------------------------------------------- */

static void
read_all(struct gguf_reading *r)
{
	uint64_t tensors = 0, keys = 0, i;

	rt_gguf_read_head(r, &tensors, &keys);
	for (i = 0; i < keys && r->status == RT_OK; i++) {
		read_key(r);
	}
	check_keys(r);
	if (r->status == RT_OK) {
		rt_gguf_read_tensors(r, tensors);
	}
}

bool
rt_gguf_is_path(const char *path)
{
	return rt_ends_in(path, ".gguf");
}

enum rt_status
rt_gguf_open(struct rt_st **out, const char *path, const struct rt_alloc *alloc,
	     struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	struct gguf_reading r;

	*out = NULL;
	rt_gguf_begin(&r, path, alloc, err);
	if (r.status == RT_OK) {
		r.model = r.st->gguf = rt_resize(&a, NULL, 1,
						 sizeof(*r.model));
		r.status = r.model ? RT_OK : rt_no_memory(err, path);
	}
	if (r.status == RT_OK) {
		memset(r.model, 0, sizeof(*r.model));
		read_all(&r);
	}
	rt_release(&a, r.buffer);
	if (r.status != RT_OK) {
		rt_st_free(r.st);
		return r.status;
	}
	*out = r.st;
	return RT_OK;
}
