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
 * A model may lie in several files, which are called PREFIX-00001-of-00003.gguf
 * and so on, as llama-gguf-split makes them.  The first has all keys of the
 * model, and each has split.no, from 0 on, split.count and
 * split.tensors.count, which is that of all files together.
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

enum {
	MOST_ALIGNMENT = 1 << 16,
	TAIL_BYTES = 20, /* "-00001-of-00003.gguf" */
	MOST_SPLIT = 99999,
};

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

#define LAYER_NORMS (RT_GGUF_STARCODER2 | RT_GGUF_GPT2 | RT_GGUF_GPTNEOX)

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
			  RT_GGUF_ALL & ~LAYER_NORMS },
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
	[RT_GGUF_LAYER_EPS] = { "attention.layer_norm_epsilon", LAYER_NORMS },
	[RT_GGUF_PARALLEL] = { "use_parallel_residual", RT_GGUF_GPTNEOX },
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

static void
read_alignment(struct gguf_reading *r, const char *key, uint64_t type)
{
	note_once(r, key, ALIGNED);
	r->alignment = rt_gguf_whole(r, key, type, 1);
}

/* The value of a fact. */
static double
read_number(struct gguf_reading *r, size_t fact, uint64_t type)
{
	if (type == RT_GGUF_BOOL &&
	    (fact == RT_GGUF_EXPERT_NORM || fact == RT_GGUF_PARALLEL)) {
		return rt_gguf_number(r, 1) ? 1 : -1;
	}
	return rt_gguf_real(r, type);
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
			m->facts[i] = read_number(r, i, type);
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

/* Reads the value of a key that says of which part the file is; false: the key
 * is another. */
static bool
read_split(struct gguf_reading *r, const char *key, uint64_t type)
{
	int64_t *to = strcmp(key, "split.no") == 0 ? &r->split.no
		: strcmp(key, "split.count") == 0 ? &r->split.count
		: strcmp(key, "split.tensors.count") == 0 ? &r->split.tensors
		: NULL;

	if (to && *to >= 0) {
		rt_gguf_fail(r, r->at, "found '%s' twice, expected it once",
			     key);
	}
	if (to) {
		*to = rt_gguf_whole(r, key, type, 0);
	}
	return to != NULL;
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
		read_alignment(r, key, type);
	} else if (own > 0 && strncmp(key, r->architecture, own) == 0 &&
		   key[own] == '.') {
		read_fact(r, key, key + own + 1, type);
	} else if (own == 0 && is_fact(key)) {
		rt_gguf_fail(r, at, "found '%s' before general.architecture, "
			     "expected it after that", rt_show_name(key).text);
	} else if (!read_split(r, key, type)) {
		rt_gguf_skip_value(r, type);
	}
}

static void
check_alignment(struct gguf_reading *r)
{
	int64_t a = r->alignment;

	if (a > MOST_ALIGNMENT || (a & (a - 1)) != 0) {
		rt_gguf_fail(r, -1, "found general.alignment %" PRId64 ", "
			     "expected a power of 2 of at most %d", a,
			     MOST_ALIGNMENT);
	}
}

static void
check_keys(struct gguf_reading *r)
{
	struct rt_gguf_model *m = r->model;

	if (r->status != RT_OK) {
		return;
	}
	if (!r->architecture[0]) {
		rt_gguf_fail(r, -1, "found no general.architecture before the "
			     "tensors, expected %s", rt_gguf_families);
	}
	check_alignment(r);
	if (m->key_heads == 0) {
		m->key_heads = m->heads;
	}
	if (r->status == RT_OK && m->heads == 0 &&
	    (m->family->turns || m->family->of == RT_GGUF_GPTNEOX)) {
		rt_gguf_fail(r, -1, "found no %s.attention.head_count after "
			     "general.architecture, expected one, as it says "
			     "how rows lie", r->architecture);
	}
}

/* ---- several files ----------------------------------------------------- */

/* What the end of a path is of a part of so many. */
static void
tail_of(char tail[TAIL_BYTES + 1], int64_t no, int64_t count)
{
	snprintf(tail, TAIL_BYTES + 1, "-%05d-of-%05d.gguf", (int)(no + 1),
		 (int)count);
}

static void
check_part(struct gguf_reading *r)
{
	const struct gguf_split *s = &r->split;
	char tail[TAIL_BYTES + 1];

	if (s->count > MOST_SPLIT || s->no < 0 || s->no >= s->count ||
	    s->tensors < 0) {
		rt_gguf_fail(r, -1, "found split.count %" PRId64 " without a "
			     "split.no below it and a split.tensors.count, "
			     "expected both, and at most %d files", s->count,
			     MOST_SPLIT);
		return;
	}
	tail_of(tail, s->no, s->count);
	if (!rt_ends_in(r->s->path, tail)) {
		rt_gguf_fail(r, -1, "found part %" PRId64 " of %" PRId64
			     ", expected a name that ends in %s, as those of "
			     "the other parts follow from it", s->no + 1,
			     s->count, tail);
	} else if (s->no != 0) {
		tail_of(tail, 0, s->count);
		rt_gguf_fail(r, -1, "found part %" PRId64 " of %" PRId64
			     ", expected the first, *%s, which has the keys",
			     s->no + 1, s->count, tail);
	}
}

/* Opens all other parts. */
static void
open_parts(struct gguf_reading *r)
{
	int64_t count = r->split.count, bytes = r->s->file_bytes, no;
	const struct rt_alloc *a = &r->st->alloc;
	char tail[TAIL_BYTES + 1];
	struct rt_shard *all;
	const char *path;
	char *own;

	all = rt_resize(a, r->st->shards, (size_t)count, sizeof(*all));
	if (!all) {
		r->status = rt_no_memory(r->err, r->s->path);
		return;
	}
	r->st->shards = r->s = all;
	path = r->s->path;
	for (no = 1; no < count && r->status == RT_OK; no++) {
		tail_of(tail, no, count);
		own = rt_join(a, path, strlen(path) - TAIL_BYTES, tail);
		r->status = own ? rt_st_add_shard(r->st, own, r->err)
				: rt_no_memory(r->err, path);
		bytes += own ? all[no].file_bytes : 0;
	}
	if (r->status == RT_OK &&
	    r->split.tensors > bytes / RT_GGUF_LEAST_TENSOR) {
		rt_gguf_fail(r, -1, "found split.tensors.count %" PRId64
			     ", expected at most the %" PRId64 " that all "
			     "files have bytes for", r->split.tensors,
			     bytes / RT_GGUF_LEAST_TENSOR);
	}
}

/* Opens the other parts, if what was opened is the first of several. */
static void
open_all(struct gguf_reading *r)
{
	if (r->status == RT_OK && r->split.count > 1) {
		check_part(r);
	}
	if (r->status == RT_OK && r->split.count > 1) {
		open_parts(r);
	}
}

/* Keys of a part after the first. */
static void
read_keys(struct gguf_reading *r, uint64_t n)
{
	char key[RT_GGUF_MOST_WORD + 1];
	uint64_t type, i;

	for (i = 0; i < n && r->status == RT_OK; i++) {
		if (!rt_gguf_read_key(r, key, sizeof(key), &type)) {
			return;
		}
		if (strcmp(key, "general.alignment") == 0) {
			read_alignment(r, key, type);
		} else if (!read_split(r, key, type)) {
			rt_gguf_skip_value(r, type);
		}
	}
}

/* Of part `no`; the first said what `of` is. */
static void
read_part(struct gguf_reading *r, const struct gguf_split *of, int64_t no)
{
	uint64_t tensors = 0, keys = 0;
	const struct gguf_split *s = &r->split;

	rt_gguf_begin_part(r, &r->st->shards[no]);
	rt_gguf_read_head(r, &tensors, &keys);
	read_keys(r, keys);
	check_alignment(r);
	if (r->status == RT_OK && (s->no != no || s->count != of->count ||
				   s->tensors != of->tensors)) {
		rt_gguf_fail(r, -1, "found split.no %" PRId64 " of %" PRId64
			     " and %" PRId64 " tensors, expected %" PRId64
			     " of %" PRId64 " and %" PRId64 ", as the first "
			     "part says", s->no, s->count, s->tensors, no,
			     of->count, of->tensors);
	}
	if (r->status == RT_OK) {
		rt_gguf_read_part(r, tensors);
	}
}

/* Reads the tensors of all files, of which the first has n. */
static void
read_tensors(struct gguf_reading *r, uint64_t n)
{
	const struct gguf_split of = r->split;
	int64_t no;

	rt_gguf_begin_tensors(r, of.count > 1 && (uint64_t)of.tensors > n
			      ? (uint64_t)of.tensors : n);
	rt_gguf_read_part(r, n);
	for (no = 1; no < of.count && r->status == RT_OK; no++) {
		read_part(r, &of, no);
	}
	if (r->status == RT_OK && of.count > 1 &&
	    (uint64_t)of.tensors != r->st->header.n) {
		rt_gguf_fail(r, -1, "found %zu tensors in %" PRId64 " files, "
			     "expected the %" PRId64 " of "
			     "split.tensors.count", r->st->header.n, of.count,
			     of.tensors);
	}
	rt_gguf_end_tensors(r);
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
	/* before keys are looked for that only the first part has */
	open_all(r);
	check_keys(r);
	if (r->status == RT_OK) {
		read_tensors(r, tensors);
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
